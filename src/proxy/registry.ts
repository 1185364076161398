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
  /** All of its sockets, in any namespace. */
  sockets(): readonly SocketRef[];
  /** The legacy can recover that socket's session (socket.io's connection state recovery). */
  recoverable(ns: string): boolean;
}

/** How many are connected here, for operators. */
export interface Figures {
  readonly connections: number;
  /** Connections with another parser than Socket.IO's default: their events are never served here. */
  readonly foreign: number;
  /** Users with a verified token, each once. */
  readonly users: number;
  readonly namespaces: ReadonlyMap<string, NamespaceFigures>;
}
export interface NamespaceFigures {
  readonly users: number;
  /** Sockets whose token could not be verified. */
  readonly unverified: number;
}

export class Registry implements Delivery {
  readonly #connections = new Map<ConnectionNumber, Connected>();
  readonly #users = new Map<string, Set<SocketRef>>();
  readonly #foreign = new Set<ConnectionNumber>();
  /** In how many namespaces each user has a socket. */
  readonly #namespacesOf = new Map<string, number>();
  /** Namespaces are what the legacy accepts; one that is empty is forgotten. */
  readonly #byNamespace = new Map<string, { users: number; unverified: number }>();

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
    this.#foreign.delete(connection.number);
  }

  /** The connection speaks another parser. */
  foreign(connection: Connected): void {
    if (this.#connections.has(connection.number)) this.#foreign.add(connection.number);
  }

  add(peer: Peer): void {
    const { user, ref } = peer;
    if (user === undefined) {
      this.#count(ref.ns, { unverified: 1 });
      return;
    }
    const key = userKey(ref.ns, user);
    const sockets = this.#users.get(key);
    if (sockets) {
      sockets.add(ref);
      return;
    }
    this.#users.set(key, new Set([ref]));
    this.#count(ref.ns, { users: 1 });
    this.#namespacesOf.set(user, (this.#namespacesOf.get(user) ?? 0) + 1);
  }

  remove(peer: Peer): void {
    const { user, ref } = peer;
    if (user === undefined) {
      this.#count(ref.ns, { unverified: -1 });
      return;
    }
    const key = userKey(ref.ns, user);
    const sockets = this.#users.get(key);
    if (!sockets?.delete(ref) || sockets.size > 0) return;
    this.#users.delete(key);
    this.#count(ref.ns, { users: -1 });
    const left = (this.#namespacesOf.get(user) ?? 1) - 1;
    if (left > 0) this.#namespacesOf.set(user, left);
    else this.#namespacesOf.delete(user);
  }

  /** Without a walk; a copy that no later change shows in. */
  figures(): Figures {
    return {
      connections: this.#connections.size,
      foreign: this.#foreign.size,
      users: this.#namespacesOf.size,
      namespaces: new Map([...this.#byNamespace].map(([ns, counts]) => [ns, { ...counts }])),
    };
  }

  /** Users with a verified socket in at least one of these namespaces. Walks them where it is more than one. */
  usersIn(namespaces: readonly string[]): number {
    if (namespaces.length < 2) return this.#byNamespace.get(namespaces[0] ?? '')?.users ?? 0;
    const users = new Set<string>();
    const within = new Set(namespaces);
    for (const key of this.#users.keys()) {
      const end = key.indexOf('\n');
      if (within.has(key.slice(0, end))) users.add(key.slice(end + 1));
    }
    return users.size;
  }

  #count(ns: string, by: { readonly users?: number; readonly unverified?: number }): void {
    const counts = this.#byNamespace.get(ns) ?? { users: 0, unverified: 0 };
    counts.users += by.users ?? 0;
    counts.unverified += by.unverified ?? 0;
    if (counts.users > 0 || counts.unverified > 0) this.#byNamespace.set(ns, counts);
    else this.#byNamespace.delete(ns);
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
    // Numbers are this process's own: another's sockets never have one of them.
    const connection = this.#connections.get(ref.connection);
    return connection?.peer(ref.ns)?.ref.id === ref.id ? connection : undefined;
  }
}

const userKey = (ns: string, user: string): string => `${ns}\n${user}`;
