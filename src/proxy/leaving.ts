// Whose doing it is that a spliced WebSocket ends: which side said goodbye, and whether the legacy's heartbeat had given
// the browser up. Knows nothing of the two sockets, nor of how an end is told.
import type { DropCause } from '../base/service.js';
import { PacketType } from '../protocol/packet.js';

/** A ping open for this part of `pingTimeout` means that the legacy's heartbeat gave the browser up. */
const GIVEN_UP = 0.9;

export class Leaving {
  /** The legacy's, from its handshake; milliseconds. */
  pingTimeout: number;
  /** How many Socket.IO sockets the session has. */
  sockets = 0;
  #pingSince = 0;
  #legacySaidBye = false;
  #browserSaidBye = false;

  constructor(pingTimeout: number) {
    this.pingTimeout = pingTimeout;
  }

  /** Bytes came from the browser: it lives. */
  browserLives(): void {
    this.#pingSince = 0;
  }

  /** The Socket.IO packet of that type came from the browser, whole. */
  browserPacket(type: PacketType): void {
    if (type === PacketType.DISCONNECT && --this.sockets <= 0) this.#browserSaidBye = true;
  }

  legacyPacket(type: PacketType): void {
    if (type === PacketType.CONNECT) this.#joined();
    if (type === PacketType.DISCONNECT && --this.sockets <= 0) this.#legacySaidBye = true;
  }

  /** The Engine.IO packet of that type came from the browser. */
  browserEngine(type: string): void {
    if (type === '1') this.#browserSaidBye = true;
  }

  legacyEngine(type: string): void {
    if (type === '1') this.#legacySaidBye = true;
    if (type === '2' && this.#pingSince === 0) this.#pingSince = Date.now();
  }

  /** Its close frame has passed. */
  browserClosed(): void {
    this.#browserSaidBye = true;
  }

  /** Whose doing it is that the legacy closes. */
  blame(): DropCause {
    if (this.#browserSaidBye || this.#legacySaidBye) return 'browser';
    const gaveUp = this.#pingSince > 0 && Date.now() - this.#pingSince >= this.pingTimeout * GIVEN_UP;
    return gaveUp ? 'browser' : 'legacy';
  }

  #joined(): void {
    this.sockets++;
    this.#browserSaidBye = false;
    this.#legacySaidBye = false;
  }
}
