// Whether a browser that polls is still there. Knows nothing of what it asks for.
import type { Clock, Timer } from '../base/clock.js';
import type { Handshake } from './transport.js';

/** The legacy, whose timer began with its ping, gives the browser up before we do; milliseconds. */
const PONG_SLACK = 250;

export class Presence {
  /** The browser came back after a silence in which the legacy's heartbeat must have given it up. */
  late = false;
  readonly #clock: Clock;
  readonly #life: number;
  readonly #pingTimeout: number;
  readonly #waits: () => boolean;
  readonly #silent: () => void;
  /** When the browser was last heard of, or got an answer. */
  #seen: number;
  /** When the legacy gives the browser up unless a request comes: a ping of its is out. */
  #pongBy = Number.POSITIVE_INFINITY;
  #timer: Timer;

  /**
   * `silent` is called once the browser made no request within `pingTimeout` of a ping, or for `pingInterval + pingTimeout +
   * slack` milliseconds, and none of its GETs `waits`: a ping that the legacy could not send tells us nothing.
   */
  constructor(clock: Clock, handshake: Handshake, slack: number, waits: () => boolean, silent: () => void) {
    this.#clock = clock;
    this.#life = handshake.pingInterval + handshake.pingTimeout + slack;
    this.#pingTimeout = handshake.pingTimeout;
    this.#waits = waits;
    this.#silent = silent;
    this.#seen = clock.now();
    this.#timer = clock.after(this.#life, () => this.#look());
  }

  /** A request came. */
  asked(): void {
    const now = this.#clock.now();
    if (!this.#waits() && now - this.#seen > this.#pingTimeout) this.late = true;
    this.#seen = now;
    this.#pongBy = Number.POSITIVE_INFINITY;
  }

  /** The legacy's ping is here; its answer is a POST, and the browser polls again besides. */
  pinged(): void {
    this.#pongBy = this.#clock.now() + this.#pingTimeout + PONG_SLACK;
    this.#rearm();
  }

  /** A GET was answered. */
  answered(): void {
    this.#seen = this.#clock.now();
    if (this.#pongBy !== Number.POSITIVE_INFINITY) this.#rearm();
  }

  /** The legacy still knows the session. */
  known(): void {
    this.late = false;
  }

  stop(): void {
    this.#timer.cancel();
  }

  #rearm(): void {
    this.#timer.cancel();
    this.#look();
  }

  #look(): void {
    const left = this.#waits() ? this.#life : Math.min(this.#seen + this.#life, this.#pongBy) - this.#clock.now();
    if (left <= 0) this.#silent();
    else this.#timer = this.#clock.after(left, () => this.#look());
  }
}
