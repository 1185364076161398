// What has passed on a polling session in either direction, as far as the rest depends on it: attachments that are
// still to come, sockets that are connected. Knows nothing of requests.
import type { Incomplete } from '../protocol/frames.js';
import { type Packet, PacketType } from '../protocol/packet.js';
import { AnswerScanner, type Filtered, PostFilter } from '../protocol/payload.js';
import type { Counters } from '../telemetry/signals.js';
import type { PacketOwner } from './transport.js';

export class SessionTraffic {
  /** Socket.IO sockets that the legacy accepted on this session. */
  sockets = 0;
  readonly #fromLegacy: AnswerScanner;
  readonly #fromBrowser: PostFilter;

  /** `maxPayload` in bytes; bounds the attachments that are kept of one event. */
  constructor(owner: PacketOwner, maxPayload: number, counters: Counters) {
    const shown = {
      packet: (packet: Packet): void => {
        if (packet.type === PacketType.CONNECT) this.sockets++;
        else if (packet.type === PacketType.DISCONNECT) this.sockets--;
        owner.fromLegacy(packet);
      },
    };
    const taken = {
      packet: (packet: Packet) => {
        if (packet.type === PacketType.DISCONNECT) this.sockets--;
        return owner.fromBrowser(packet);
      },
      foreign: () => owner.foreign(),
    };
    this.#fromLegacy = new AnswerScanner(shown, owner.legacyInterest, () => owner.watching(), counters);
    this.#fromBrowser = new PostFilter(taken, owner.interest, maxPayload, counters);
  }

  /** Attachments that the browser still expects: while not 0, nothing of ours may be sent. */
  get open(): number {
    return this.#fromLegacy.attachmentsDue;
  }

  /** What the legacy says, before it passes: whether it says goodbye, or pings. */
  scan(text: Buffer): { readonly gone: boolean; readonly ping: boolean } {
    return this.#fromLegacy.scan(text);
  }

  /** Takes served events out of what the browser says. */
  filter(body: Buffer): Filtered {
    return this.#fromBrowser.filter(body);
  }

  /** A taken event that lacks attachments; it is no longer ours then. */
  takeIncomplete(): Incomplete | undefined {
    return this.#fromBrowser.takeIncomplete() ?? undefined;
  }

  /** An event of the legacy's to be shown that lacks attachments. */
  shownIncomplete(): Incomplete | undefined {
    return this.#fromLegacy.takeIncomplete() ?? undefined;
  }
}
