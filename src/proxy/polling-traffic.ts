// What has passed on a polling session in either direction, as far as the rest depends on it: attachments that are
// still to come, sockets that are connected. Knows nothing of requests.
import { AnswerScanner, type Scanned } from '../protocol/answer-scanner.js';
import type { Incomplete } from '../protocol/frames.js';
import { type Outgoing, type Packet, PacketType, type Passage } from '../protocol/packet.js';
import { type Filtered, PostFilter } from '../protocol/post-filter.js';
import type { Counters } from '../telemetry/signals.js';
import type { PacketOwner } from './transport.js';

export class SessionTraffic {
  /** Socket.IO sockets that the legacy accepted on this session. */
  sockets = 0;
  readonly #fromLegacy: AnswerScanner;
  readonly #fromBrowser: PostFilter;
  /** What settles the packet that is held. */
  #word: Promise<Outgoing | undefined> | undefined;

  /** `maxPayload` in bytes; bounds the attachments that are kept of one event. */
  constructor(owner: PacketOwner, maxPayload: number, counters: Counters) {
    const shown = {
      packet: (packet: Packet): Passage => {
        if (packet.type === PacketType.CONNECT) this.sockets++;
        else if (packet.type === PacketType.DISCONNECT) this.sockets--;
        const passing = owner.fromLegacy(packet);
        if (!(passing instanceof Promise)) return passing ?? 'pass';
        this.#word = passing;
        return 'hold';
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

  /**
   * A whole answer of the legacy's, before it passes. A promise: a packet in it is held, so the browser must not get it
   * before that settles, in bounded time, and no other answer may be scanned. Never rejects but for faults of ours.
   */
  scan(text: Buffer): Scanned | Promise<Scanned> {
    return this.#fromLegacy.scan(text) ?? this.#settled();
  }

  /** What goes on as it comes: nothing of it is held or replaced. */
  scanPassing(text: Buffer): Scanned {
    return this.#fromLegacy.scan(text, 'passing');
  }

  async #settled(): Promise<Scanned> {
    for (;;) {
      const scanned = this.#fromLegacy.settle(await this.#word);
      if (scanned) return scanned;
    }
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
