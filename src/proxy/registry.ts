// Who is connected here: every Socket.IO socket that the legacy accepted, by user and by connection. Signaling reaches
// browsers through it (`Delivery`). Knows nothing of calls or of how a transport sends.
import type { ConnectionNumber, Namespace, SocketRef, UserId } from '../base/ids.js';
import type { Peer } from '../base/service.js';
import type { Outgoing } from '../protocol/packet.js';
import { encodeEvent } from '../protocol/socketio.js';
import type { Delivery } from '../signaling/deliver.js';
import type { Transport } from './transport.js';

/** What the registry needs of a connection. */
export interface Connected {
  readonly number: ConnectionNumber;
  readonly transport: Transport | null;
  /** The socket that this connection has in the namespace now. */
  peer(ns: string): Peer | undefined;
  /** The legacy can recover that socket's session (socket.io's connection state recovery). */
  recoverable(ns: string): boolean;
}

export class Registry implements Delivery {
  readonly #connections = new Map<ConnectionNumber, Connected>();
  readonly #users = new Map<string, Set<SocketRef>>();

  /** What was sent last in this turn. */
  #last:
    | {
        readonly ns: Namespace;
        readonly event: string;
        readonly arg: unknown;
        readonly shielded: boolean;
        readonly packet: Outgoing;
      }
    | undefined;

  open(connection: Connected): void {
    this.#connections.set(connection.number, connection);
  }

  close(connection: Connected): void {
    this.#connections.delete(connection.number);
  }

  add(peer: Peer): void {
    if (peer.user === undefined) return;
    const key = userKey(peer.ref.ns, peer.user);
    const sockets = this.#users.get(key);
    if (sockets) sockets.add(peer.ref);
    else this.#users.set(key, new Set([peer.ref]));
  }

  remove(peer: Peer): void {
    if (peer.user === undefined) return;
    const key = userKey(peer.ref.ns, peer.user);
    const sockets = this.#users.get(key);
    if (sockets?.delete(peer.ref) && sockets.size === 0) this.#users.delete(key);
  }

  emit(to: SocketRef, event: string, arg: unknown): boolean {
    const connection = this.#of(to);
    if (!connection?.transport) return false;
    // A client that can be recovered takes a text at an event's end for the legacy's offset, which it would then have lost.
    const shielded = typeof arg === 'string' && connection.recoverable(to.ns);
    connection.transport.send([this.#encoded(to.ns, event, arg, shielded)]);
    return true;
  }

  /** What rings many devices is encoded once. */
  #encoded(ns: Namespace, event: string, arg: unknown, shielded: boolean): Outgoing {
    const last = this.#last;
    if (last && last.arg === arg && last.event === event && last.ns === ns && last.shielded === shielded) {
      return last.packet;
    }
    const packet = encodeEvent(ns, event, shielded ? [arg, null] : [arg]);
    if (!last) queueMicrotask(() => (this.#last = undefined));
    this.#last = { ns, event, arg, shielded, packet };
    return packet;
  }

  socketsOf(ns: Namespace, user: UserId): readonly SocketRef[] {
    const sockets = this.#users.get(userKey(ns, user));
    return sockets ? [...sockets] : [];
  }

  isConnected(ref: SocketRef): boolean {
    return this.#of(ref) !== undefined;
  }

  /** Number of open connections. */
  get size(): number {
    return this.#connections.size;
  }

  connections(): IterableIterator<Connected> {
    return this.#connections.values();
  }

  #of(ref: SocketRef): Connected | undefined {
    const connection = this.#connections.get(ref.connection);
    return connection?.peer(ref.ns)?.ref.id === ref.id ? connection : undefined;
  }
}

const userKey = (ns: string, user: string): string => `${ns}\n${user}`;
