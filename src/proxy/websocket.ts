// A browser's WebSocket and the legacy's, spliced: bytes flow both ways with backpressure, packets are shown to their
// owner on the way, ours are put in between. The two sockets live and die together. Knows nothing of frames (the
// splices do) or of what a packet means.
import type { Socket } from 'node:net';
import type { DropCause } from '../base/service.js';
import { closeFrame, frame, Opcode } from '../protocol/frame.js';
import type { Incomplete } from '../protocol/frames.js';
import type { Outgoing, Passage } from '../protocol/packet.js';
import { BrowserSplice, LegacySplice } from '../protocol/splice.js';
import type { Signals } from '../telemetry/signals.js';
import { Leaving } from './leaving.js';
import { Stall } from './stall.js';
import type { Handshake, PacketOwner, Passing, Transport } from './transport.js';
import { breakOff, endSoon, type Upgraded } from './tunnel.js';
import type { Upstream } from './upstreams.js';

const EMPTY = Buffer.alloc(0);
/** What we put in for a browser that does not read; with more than this waiting, the next packet ends the connection. Bytes. */
const MAX_INJECTED = 1 << 20;
/** Before the legacy's handshake has passed. Bytes; engine.io's default `maxHttpBufferSize`. */
const MAX_PAYLOAD = 1_000_000;
/** engine.io's own, until the legacy's handshake has passed; milliseconds. */
const HEARTBEAT = { pingInterval: 25_000, pingTimeout: 20_000 };
const STALL_SLACK = 1_000;
/** For a whole-packet boundary to come when we end the connection; milliseconds. */
const BOUNDARY_GRACE = 250;

/** For a WebSocket that continues a polling session: nothing is looked into or put in before the browser's `5`. */
export interface UpgradeHooks {
  /** The browser's `2probe` has passed. */
  probed?(): void;
  /**
   * The browser's `5` came and waits here; call `holdLegacy()` now where a legacy GET is open. `taken`: an event that was
   * taken from a POST and lacks attachments, which come on this WebSocket. `ready`: the `5` goes on when it settles.
   * `sockets`: how many Socket.IO sockets the session has, 1 where it isn't said.
   */
  upgrade(): {
    readonly taken?: Incomplete | undefined;
    readonly ready?: Promise<void> | undefined;
    readonly sockets?: number;
  };
  /** The `5` has gone on. `release()` must follow, now or when the legacy's GET has ended. */
  upgraded(): void;
}

/** What of the polling side must reach the browser before the WebSocket's own bytes. */
export interface Leftover {
  /** Engine.IO packets in order: texts with their type, or attachments. */
  readonly packets: readonly (string | Buffer)[];
  /** Attachments that the browser still expects after `packets`. */
  readonly due?: number;
  /** The header of those, where it is one of the legacy's events that are shown. */
  readonly shown?: Incomplete | undefined;
  /** Packets of ours that nobody has fetched. */
  readonly own?: readonly Outgoing[];
}

export interface SplicedOptions {
  readonly signals: Pick<Signals, 'counters' | 'bound' | 'internalError'>;
  readonly hooks?: UpgradeHooks | undefined;
  /** What the polling session knows already; else it is read as it passes. */
  readonly handshake?: Handshake | undefined;
  /**
   * The pair is going away; called once. With `hooks`, the owner's `closed` was called before only if `release` was:
   * until then the session is still polling's.
   */
  readonly gone?: ((cause: DropCause) => void) | undefined;
}

export class SplicedWebSocket implements Transport {
  readonly kind = 'websocket';
  readonly #browser: Socket;
  readonly #legacy: Socket;
  readonly #upstream: Upstream;
  #heads: readonly [legacy: Buffer, browser: Buffer] | undefined;
  readonly owner: PacketOwner;
  readonly #options: SplicedOptions;
  readonly #up: BrowserSplice;
  readonly #down: LegacySplice;
  /** `polling`: before the browser's `5`; `handover`: from there until `release`; `gone`: nothing is read any more. */
  #phase: 'polling' | 'handover' | 'open' | 'gone';
  /** Whether the end was told. */
  #told = false;
  #holdingLegacy = false;
  /** What of the browser's bytes waits, a `5` among them perhaps. */
  #held: Buffer[] | null = null;
  #ready: Promise<void> | undefined;
  #endedWhileHeld: DropCause | undefined;
  #ending: { readonly code: number; readonly reason: string; readonly timer: NodeJS.Timeout } | undefined;

  /** Longer than this the legacy's own heartbeat would not bear a side that takes nothing. */
  #heartbeat: number;
  readonly #browserStall: Stall;
  readonly #legacyStall: Stall;

  /** Tells whose doing the end is. */
  readonly #leaving: Leaving;

  /** Call `start()` in the same turn in which `passUpgrade` resolved. */
  constructor(upgraded: Upgraded, owner: PacketOwner, options: SplicedOptions) {
    this.#upstream = upgraded.upstream;
    this.#heads = [upgraded.legacyHead, upgraded.browserHead];
    this.#browser = upgraded.browser;
    this.#legacy = upgraded.legacy;
    this.owner = owner;
    this.#options = options;
    this.#phase = options.hooks ? 'polling' : 'open';
    const { pingInterval, pingTimeout } = options.handshake ?? HEARTBEAT;
    this.#leaving = new Leaving(pingTimeout);
    this.#heartbeat = pingInterval + pingTimeout + STALL_SLACK;
    this.#browserStall = new Stall(this.#browser, () => this.#breakOff('browser'));
    this.#legacyStall = new Stall(this.#legacy, () => this.#breakOff('legacy'));
    const { counters } = options.signals;
    const upgrading = options.hooks !== undefined;
    this.#up = new BrowserSplice(
      {
        pass: (bytes) => this.#toLegacy(bytes),
        packet: (packet) => {
          this.#leaving.browserPacket(packet.type);
          return this.#told ? 'pass' : owner.fromBrowser(packet);
        },
        foreign: () => owner.foreign(),
        engine: (type, text) => this.#engineUp(type, text),
        close: () => this.#closeFramePassed('browser'),
      },
      owner.interest,
      { maxPayload: options.handshake?.maxPayload ?? MAX_PAYLOAD, counters, upgrading, known: upgrading },
    );
    this.#down = new LegacySplice(
      {
        pass: (bytes) => this.#toBrowser(bytes),
        packet: (packet) => {
          this.#leaving.legacyPacket(packet.type);
          return this.#told ? 'pass' : this.#passage(owner.fromLegacy(packet));
        },
        open: (handshake) => {
          this.#leaving.pingTimeout = handshake.pingTimeout;
          this.#heartbeat = handshake.pingInterval + handshake.pingTimeout + STALL_SLACK;
          this.#up.maxPayload = handshake.maxPayload;
        },
        engine: (type) => this.#leaving.legacyEngine(type),
        close: () => this.#closeFramePassed('legacy'),
      },
      owner.legacyInterest,
      { counters, watching: () => !this.#told && owner.watching(), enabled: !upgrading },
    );
  }

  start(): void {
    const [legacyHead, browserHead] = this.#heads ?? [EMPTY, EMPTY];
    this.#heads = undefined;
    if (!this.#options.hooks) {
      this.#upstream.sessions++;
      this.owner.attach(this);
    }
    this.#listen();
    if (legacyHead.length > 0) this.#guarded(legacyHead, this.#onLegacy);
    if (browserHead.length > 0) this.#guarded(browserHead, this.#onBrowser);
    this.#readLegacy();
    if (!this.#held) this.#browser.resume();
  }

  send(packets: readonly Outgoing[]): void {
    if (this.#told || this.#phase === 'gone') return;
    const waiting = this.#browser.writableLength + this.#down.queuedBytes;
    if (waiting > MAX_INJECTED) {
      this.#options.signals.bound('inject-overflow', { transport: this.kind, bytes: waiting });
      this.#breakOff('browser');
      return;
    }
    this.#down.inject(packets);
  }

  forward(packet: Outgoing): void {
    if (!this.#told) this.#up.inject(packet);
  }

  /** A close frame with this code to both sides where that can be put between packets, then the sockets end. */
  end(code: number, reason: string): void {
    if (this.#ending || this.#phase === 'gone') return;
    const timer = setTimeout(() => this.#closeBoth(), BOUNDARY_GRACE);
    timer.unref();
    this.#ending = { code, reason, timer };
    this.#down.settle();
    if (this.#down.atBoundary) this.#closeBoth();
  }

  /** The legacy's WebSocket is not read until `release`. */
  holdLegacy(): void {
    this.#holdingLegacy = true;
    this.#legacy.pause();
    this.#down.hold();
  }

  /** After the `5`: what is left over of the polling side goes first, then this transport carries the connection. */
  release(leftover: Leftover): void {
    if (this.#phase !== 'handover') return;
    this.#phase = 'open';
    for (const packet of leftover.packets) {
      this.#toBrowser(frame(typeof packet === 'string' ? Opcode.TEXT : Opcode.BINARY, packet));
    }
    if (leftover.due !== undefined) this.#down.attachmentsDue = leftover.due;
    if (leftover.shown) this.#down.adopt(leftover.shown);
    this.owner.attach(this);
    if (leftover.own && leftover.own.length > 0) this.#down.inject(leftover.own);
    this.#down.enabled = true;
    if (!this.#holdingLegacy) return;
    this.#holdingLegacy = false;
    this.#down.release();
    this.#readLegacy();
  }

  #listen(): void {
    const browser = this.#browser;
    const legacy = this.#legacy;
    browser.on('data', (chunk: Buffer) => this.#guarded(chunk, this.#onBrowser));
    legacy.on('data', (chunk: Buffer) => this.#guarded(chunk, this.#onLegacy));
    browser.on('drain', () => {
      this.#browserStall.end();
      this.#readLegacy();
    });
    legacy.on('drain', () => {
      this.#legacyStall.end();
      if (!this.#held) browser.resume();
    });
    browser.on('end', () => {
      this.#up.end();
      this.#finish('browser');
      this.#endBoth();
    });
    legacy.on('end', () => {
      this.#down.end();
      this.#finish(this.#leaving.blame());
      this.#endBoth();
    });
    browser.on('close', (hadError: boolean) => {
      this.#browserStall.end();
      this.#finish('browser');
      this.#phase = 'gone';
      if (hadError) breakOff(legacy);
      else endSoon(legacy);
    });
    legacy.on('close', (hadError: boolean) => {
      this.#legacyStall.end();
      this.#finish(this.#leaving.blame());
      this.#phase = 'gone';
      if (hadError) breakOff(browser);
      else endSoon(browser);
    });
  }

  /** A fault of ours ends this connection, not the process. */
  #guarded(chunk: Buffer, take: (chunk: Buffer) => void): void {
    try {
      take.call(this, chunk);
    } catch (error) {
      this.#options.signals.internalError('websocket', error);
      this.#breakOff('drain');
    }
  }

  #onBrowser(chunk: Buffer): void {
    if (this.#phase === 'gone') return;
    this.#leaving.browserLives();
    if (this.#phase !== 'polling') {
      this.#up.write(chunk);
      return;
    }
    // A `5` may be in here; what passes is kept until we know.
    this.#held = [];
    this.#up.write(chunk);
    if (this.#ready === undefined) {
      this.#passHeld();
      return;
    }
    this.#browser.pause();
    this.#ready
      .catch((error: unknown) => this.#options.signals.internalError('upgrade', error))
      .then(() => {
        this.#passHeld();
        if (this.#phase !== 'gone') this.#browser.resume();
      });
  }

  #passHeld(): void {
    const held = this.#held ?? [];
    this.#held = null;
    for (const bytes of held) this.#toLegacy(bytes);
    if (this.#phase === 'handover') this.#options.hooks?.upgraded();
    const cause = this.#endedWhileHeld;
    if (cause === undefined) return;
    this.#endedWhileHeld = undefined;
    this.#options.gone?.(cause);
  }

  #onLegacy(chunk: Buffer): void {
    if (this.#phase === 'gone') return;
    this.#down.write(chunk);
    if (this.#ending && this.#down.atBoundary) this.#closeBoth();
  }

  /** A held acknowledgement stops the legacy's stream for a moment; nothing of it is lost, for it is only not read. */
  #passage(passing: Passing): Passage {
    if (!(passing instanceof Promise)) return passing ?? 'pass';
    if (this.#ending) return 'pass';
    this.#legacy.pause();
    passing
      .then((other) => {
        this.#down.settle(other);
        if (this.#ending && this.#down.atBoundary) this.#closeBoth();
        this.#readLegacy();
      })
      .catch((error: unknown) => {
        this.#options.signals.internalError('websocket', error);
        this.#breakOff('drain');
      });
    return 'hold';
  }

  #readLegacy(): void {
    if (this.#holdingLegacy || this.#down.holding || this.#browser.writableNeedDrain) return;
    this.#legacy.resume();
  }

  #toLegacy(bytes: Buffer): void {
    if (this.#held) this.#held.push(bytes);
    else if (this.#legacy.writable && !this.#legacy.write(bytes)) {
      this.#browser.pause();
      this.#legacyStall.begin(this.#heartbeat);
    }
  }

  #toBrowser(bytes: Buffer): void {
    if (!this.#browser.writable || this.#browser.write(bytes)) return;
    this.#legacy.pause();
    this.#browserStall.begin(this.#heartbeat);
  }

  #engineUp(type: string, text: string): void {
    this.#leaving.browserEngine(type);
    if (this.#phase !== 'polling') return;
    const { hooks } = this.#options;
    if (type === '2' && text === 'probe') hooks?.probed?.();
    if (type !== '5' || text !== '') return;
    this.#phase = 'handover';
    const answer = hooks?.upgrade();
    this.#leaving.sockets = answer?.sockets ?? 1;
    if (answer?.taken) this.#up.adopt(answer.taken);
    this.#ready = answer?.ready;
  }

  #closeFramePassed(by: 'browser' | 'legacy'): void {
    if (by === 'browser') this.#leaving.browserClosed();
    this.#finish(by === 'browser' ? 'browser' : this.#leaving.blame());
  }

  /** Nothing of ours can reach the browser from here on. Bytes of either side may still flow. */
  #finish(cause: DropCause): void {
    if (this.#told) return;
    this.#told = true;
    const attached = !this.#options.hooks || this.#phase === 'open';
    if (!this.#options.hooks) this.#upstream.sessions--;
    const told = this.#ending ? 'drain' : cause;
    if (attached) this.owner.closed(told);
    // A close right behind the `5`: the session must get to know of the `5` first.
    if (this.#held) this.#endedWhileHeld = told;
    else this.#options.gone?.(told);
  }

  #closeBoth(): void {
    if (!this.#ending || this.#phase === 'gone') return;
    const { code, reason, timer } = this.#ending;
    clearTimeout(timer);
    this.#finish('drain');
    if (this.#down.atBoundary && this.#browser.writable) this.#browser.write(closeFrame(code, reason));
    if (this.#up.atBoundary && this.#legacy.writable) this.#legacy.write(closeFrame(code, reason, true));
    this.#endBoth();
  }

  /** Where one side does not read there is nothing to wait for. */
  #breakOff(cause: DropCause): void {
    this.#finish(cause);
    this.#phase = 'gone';
    breakOff(this.#browser);
    breakOff(this.#legacy);
  }

  #endBoth(): void {
    this.#phase = 'gone';
    if (this.#ending) clearTimeout(this.#ending.timer);
    endSoon(this.#browser);
    endSoon(this.#legacy);
  }
}
