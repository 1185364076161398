// Whole packets of a payload that comes in chunks of any size. Knows nothing of what they say.

const SEPARATOR = 0x1e;
/** Of a longer packet only the beginning is kept, which tells its type and attachments; bytes. */
const LIMIT = 1024 * 1024 + 1;

export class PayloadItems {
  readonly #whole: (items: Buffer) => void;
  readonly #limit: number;
  /** The packet that has begun, at most `limit` bytes of it. */
  #begun: Buffer[] = [];
  #size = 0;

  /** `whole` gets one or more packets, joined as they came. A packet over `limit` bytes is cut there. */
  constructor(whole: (items: Buffer) => void, limit = LIMIT) {
    this.#whole = whole;
    this.#limit = limit;
  }

  write(chunk: Buffer): void {
    const last = chunk.lastIndexOf(SEPARATOR);
    if (last < 0) {
      this.#keep(chunk);
      return;
    }
    const first = this.#size > 0 ? chunk.indexOf(SEPARATOR) : -1;
    if (first >= 0) {
      this.#keep(chunk.subarray(0, first));
      this.end();
    }
    if (first < last) this.#whole(chunk.subarray(first + 1, last));
    this.#keep(chunk.subarray(last + 1));
  }

  /** The payload ends with the packet that has begun. */
  end(): void {
    if (this.#size === 0) return;
    const item = this.#begun.length === 1 ? this.#begun[0]! : Buffer.concat(this.#begun);
    this.#begun = [];
    this.#size = 0;
    this.#whole(item);
  }

  #keep(bytes: Buffer): void {
    const room = this.#limit - this.#size;
    if (bytes.length === 0 || room <= 0) return;
    const kept = bytes.length > room ? bytes.subarray(0, room) : bytes;
    this.#begun.push(kept);
    this.#size += kept.length;
  }
}
