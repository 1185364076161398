// Notices that a socket takes nothing of what was written to it. While it stalls its counterpart is not read, so that
// one's going away can't be seen either: after a time the pair must end. Knows nothing of what the pair carries.
import type { Socket } from 'node:net';

export class Stall {
  readonly #socket: Socket;
  readonly #stalled: () => void;
  #timer: NodeJS.Timeout | undefined;
  #sent = 0;

  constructor(socket: Socket, stalled: () => void) {
    this.#socket = socket;
    this.#stalled = stalled;
  }

  /** A write found the buffer full; `limit` without any progress is a stall. Milliseconds. */
  begin(limit: number): void {
    if (this.#timer) return;
    this.#sent = this.#taken();
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      if (this.#taken() > this.#sent) this.begin(limit);
      else this.#stalled();
    }, limit);
    this.#timer.unref();
  }

  /** The buffer is empty, or the socket is gone. */
  end(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  #taken(): number {
    return this.#socket.bytesWritten - this.#socket.writableLength;
  }
}
