// One browser's Engine.IO connection, whatever carries it: knows which sockets the legacy accepted on it and for whom,
// shows their events to the services, and takes what those send. Knows nothing of calls, frames or payloads.
import { createHash } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { type Clock, systemClock } from '../base/clock.js';
import type { Address, ConnectionNumber, Namespace, SocketId, SocketRef } from '../base/ids.js';
import type { Acknowledged, DropCause, InboundEvent, Peer, Service } from '../base/service.js';
import type { TokenVerifier } from '../identity/identity.js';
import { readToken, type TokenBearer, type TokenSource } from '../identity/token-source.js';
import type { Interest, LegacyInterest, Outgoing, Packet, Verdict } from '../protocol/packet.js';
import { PacketType } from '../protocol/packet.js';
import { decodeArgs, encodeAck } from '../protocol/socketio.js';
import type { Signals } from '../telemetry/signals.js';
import { Awaited } from './awaited.js';
import type { Connected, Registry } from './registry.js';
import type { Connections, PacketOwner, Passing, Transport } from './transport.js';

export interface ConnectionDeps {
  readonly services: readonly Service[];
  readonly registry: Registry;
  readonly verifier: TokenVerifier;
  readonly tokenFrom: readonly TokenSource[];
  readonly signals: Signals;
  readonly clock?: Clock;
  /** Where several processes share their calls: this one's address, and the number before its first connection's. */
  readonly at?: Address;
  readonly before?: number;
}

/** Namespaces that a connection may be asking for at once; a browser uses a handful. */
const mostPending = 64;

/** Makes a `Connection` for each new Engine.IO session; numbers are never reused. */
export function createConnections(deps: ConnectionDeps): Connections {
  let last = deps.before ?? 0;
  const serving: Serving = { ...deps, byEvent: new Map(), watchedBy: new Map() };
  for (const service of deps.services) {
    for (const event of service.events.keys()) serving.byEvent.set(event, service);
    for (const event of service.watched) {
      serving.watchedBy.set(event, [...(serving.watchedBy.get(event) ?? []), service]);
    }
  }
  return {
    open(request) {
      last += 1;
      const connection = new Connection(last as ConnectionNumber, request, serving);
      deps.registry.open(connection);
      return connection;
    },
  };
}

interface Serving extends ConnectionDeps {
  readonly byEvent: Map<string, Service>;
  readonly watchedBy: Map<string, Service[]>;
}

class Connection implements PacketOwner, Connected {
  readonly number: ConnectionNumber;
  transport: Transport | null = null;
  /** In every namespace, whatever the table names: a call outlives the table that it began under. */
  readonly interest: Interest = {
    event: (ns, name) => this.#serving.byEvent.has(name) && this.#peers.has(ns),
  };
  readonly legacyInterest: LegacyInterest = {
    event: (ns, name) => this.#serving.watchedBy.has(name) && this.#peers.has(ns),
    awaiting: () => this.#awaited.size > 0,
    acknowledgement: (ns, id) => this.#awaited.has(ns, id),
  };

  readonly #serving: Serving;
  /** Sockets that the legacy accepted, by namespace. */
  readonly #peers = new Map<string, Peer>();
  /** Namespaces in which the legacy told the browser a `pid`. */
  readonly #recoverable = new Set<string>();
  /** Tokens of CONNECT packets that the legacy has not answered yet. */
  readonly #connecting = new Map<string, string | undefined>();
  /** Query, cookie and headers of the handshake, for tokens that stand there; not kept where no source asks for them. */
  readonly #bearer: Omit<TokenBearer, 'auth'>;
  /** Events taken and not served yet, in their order: a transport serves them once what came before has passed. */
  readonly #taken = new Map<() => void, string>();
  /** Acknowledgements of forwarded events that a service wants to see. */
  readonly #awaited: Awaited;
  #foreign = false;
  #closed = false;

  constructor(number: ConnectionNumber, request: IncomingMessage, serving: Serving) {
    this.number = number;
    this.#serving = serving;
    const asked = serving.tokenFrom.some((source) => source.from !== 'auth');
    const { signals, clock = systemClock } = serving;
    this.#awaited = new Awaited({
      clock,
      bound: (what, detail) => signals.bound(what, { ...detail, connection: number }),
      failed: (error) => signals.internalError('an acknowledgement of the legacy', error),
    });
    this.#bearer = asked ? { url: request.url, headers: request.headers } : { url: undefined, headers: {} };
  }

  watching(): boolean {
    for (const service of this.#serving.services) if (service.watching()) return true;
    return false;
  }

  peer(ns: string): Peer | undefined {
    return this.#peers.get(ns);
  }

  sockets(): readonly SocketRef[] {
    return [...this.#peers.values()].map(({ ref }) => ref);
  }

  recoverable(ns: string): boolean {
    return this.#recoverable.has(ns);
  }

  attach(transport: Transport): void {
    const { signals } = this.#serving;
    if (this.transport === null) signals.connectionOpened(transport.kind);
    else if (this.transport.kind !== transport.kind) signals.connectionUpgraded();
    this.transport = transport;
  }

  foreign(): void {
    if (this.#foreign) return;
    this.#foreign = true;
    this.#serving.registry.foreign(this);
    this.#serving.signals.foreignProtocol(this.number);
  }

  fromBrowser(packet: Packet): Verdict {
    switch (packet.type) {
      case PacketType.CONNECT:
        if (this.#connecting.size < mostPending) this.#connecting.set(packet.ns, this.#tokenOf(packet));
        return 'pass';
      case PacketType.DISCONNECT:
        this.#serveTaken(packet.ns);
        this.#leave(packet.ns, 'browser');
        return 'pass';
      case PacketType.EVENT:
      case PacketType.BINARY_EVENT:
        return this.#event(packet);
      default:
        return 'pass';
    }
  }

  fromLegacy(packet: Packet): Passing {
    switch (packet.type) {
      case PacketType.CONNECT:
        this.#accepted(packet);
        return undefined;
      case PacketType.CONNECT_ERROR:
        this.#connecting.delete(packet.ns);
        return undefined;
      case PacketType.DISCONNECT:
        this.#leave(packet.ns, 'browser');
        return undefined;
      case PacketType.EVENT:
      case PacketType.BINARY_EVENT:
        this.#passed(packet);
        return undefined;
      case PacketType.ACK:
      case PacketType.BINARY_ACK:
        return this.#acknowledged(packet);
    }
  }

  /** The service wants to see the acknowledgement of an event that goes to the legacy. */
  await(packet: Packet, acknowledged: Acknowledged | undefined): void {
    if (acknowledged && packet.id !== undefined) this.#awaited.add(packet.ns, packet.id, acknowledged);
  }

  closed(cause: DropCause): void {
    if (this.#closed) return;
    this.#closed = true;
    for (const ns of [...this.#peers.keys()]) this.#leave(ns, cause);
    this.#taken.clear();
    this.#serving.registry.close(this);
    if (this.transport) this.#serving.signals.connectionClosed(this.transport.kind, cause);
    this.transport = null;
  }

  #event(packet: Packet): Verdict {
    const peer = this.#peers.get(packet.ns);
    const { name } = packet;
    const service = name === undefined ? undefined : this.#serving.byEvent.get(name);
    if (!peer || name === undefined || !service || this.#foreign) return 'pass';
    try {
      const event = new PacketEvent(packet, peer, this);
      if (event.broken) return 'pass';
      const { serve, acknowledged } = service.route(event);
      if (!serve) {
        this.await(packet, acknowledged);
        return 'pass';
      }
      const once = (): void => {
        if (this.#taken.delete(once)) serve();
      };
      this.#taken.set(once, packet.ns);
      return once;
    } catch (error) {
      // Deciding failed: the legacy is the one that can still answer.
      const whose = { user: peer.user ?? `connection ${peer.ref.connection}`, conversationId: undefined };
      this.#serving.signals.internalError(`routing ${name}`, error, { event: name, ns: packet.ns, whose });
      return 'pass';
    }
  }

  /** What a browser sent before it left counts, and counts before its leaving. */
  #serveTaken(ns: string): void {
    for (const [serve, of] of this.#taken) if (of === ns) serve();
  }

  #accepted(packet: Packet): void {
    const { verifier, signals, registry, services, at } = this.#serving;
    const sid = sidOf(packet);
    if (sid === undefined || this.#closed || this.#foreign) return;
    const token = this.#connecting.get(packet.ns);
    this.#connecting.delete(packet.ns);
    if (this.#peers.has(packet.ns)) this.#leave(packet.ns, 'browser');
    const verified =
      token === undefined ? { ok: false as const, why: 'no token where --token-from says' } : verifier.verify(token);
    if (!verified.ok) signals.unverified(this.number, verified.why);
    const ref = { ns: packet.ns as Namespace, id: sid as SocketId, connection: this.number };
    const peer: Peer = {
      ref: at === undefined ? ref : { ...ref, at },
      user: verified.ok ? verified.user : undefined,
      token,
    };
    this.#peers.set(packet.ns, peer);
    if (pidOf(packet) !== undefined) this.#recoverable.add(packet.ns);
    registry.add(peer);
    // The packet passes first: nothing may reach the browser on this socket before it.
    queueMicrotask(() => {
      if (this.#peers.get(packet.ns) !== peer) return;
      for (const service of services) service.connected(peer);
    });
  }

  #leave(ns: string, cause: DropCause): void {
    const peer = this.#peers.get(ns);
    if (!peer) return;
    this.#peers.delete(ns);
    this.#recoverable.delete(ns);
    this.#awaited.forget(ns);
    this.#serving.registry.remove(peer);
    for (const service of this.#serving.services) service.disconnected(peer, cause);
  }

  #passed(packet: Packet): void {
    const peer = this.#peers.get(packet.ns);
    const args = decodeArgs(packet);
    if (!peer || packet.name === undefined || args === null) return;
    for (const service of this.#serving.watchedBy.get(packet.name) ?? []) {
      try {
        service.passed({ peer, name: packet.name, args });
      } catch (error) {
        this.#serving.signals.internalError(`watching ${packet.name}`, error);
      }
    }
  }

  #acknowledged(packet: Packet): Passing {
    const { ns, id } = packet;
    const peer = this.#peers.get(ns);
    const args = decodeArgs(packet);
    if (!peer || id === undefined || args === null) return undefined;
    const replaced = this.#awaited.came(ns, id, args);
    const encoded = (other: readonly unknown[] | null): Outgoing | undefined => {
      if (!other || this.#peers.get(ns) !== peer) return undefined;
      try {
        return encodeAck(ns, id, other);
      } catch (error) {
        this.#serving.signals.internalError('an acknowledgement of the legacy', error);
        return undefined;
      }
    };
    return replaced instanceof Promise ? replaced.then(encoded) : encoded(replaced);
  }

  #tokenOf(packet: Packet): string | undefined {
    return readToken(this.#serving.tokenFrom, { ...this.#bearer, auth: decodeArgs(packet)?.[0] });
  }
}

/** An event of a browser's, as the services see it. */
class PacketEvent implements InboundEvent {
  readonly peer: Peer;
  readonly name: string;
  readonly ackRequested: boolean;
  readonly #packet: Packet;
  readonly #connection: Connection;
  #args: readonly unknown[] | undefined;
  #acked = false;

  constructor(packet: Packet, peer: Peer, connection: Connection) {
    this.#packet = packet;
    this.#connection = connection;
    this.peer = peer;
    this.name = packet.name as string;
    this.ackRequested = packet.id !== undefined;
  }

  /** It is no event at all (broken JSON, a placeholder without its attachment): the legacy closes a session over that. */
  get broken(): boolean {
    const args = decodeArgs(this.#packet);
    this.#args = args ?? [];
    return args === null;
  }

  get args(): readonly unknown[] {
    this.#args ??= decodeArgs(this.#packet) ?? [];
    return this.#args;
  }

  get size(): number {
    return this.#packet.attachments.reduce((bytes, a) => bytes + a.length, this.#packet.text.length);
  }

  digest(): string {
    const hash = createHash('sha1').update(this.#packet.text.slice(this.#packet.dataStart));
    for (const attachment of this.#packet.attachments) hash.update('\0').update(attachment);
    return hash.digest('base64');
  }

  ack(arg: unknown): void {
    const { id, ns } = this.#packet;
    if (id === undefined || this.#acked) return;
    this.#acked = true;
    if (this.#stillThere()) this.#connection.transport?.send([encodeAck(ns, id, [arg])]);
  }

  forward(acknowledged?: Acknowledged): void {
    if (!this.#stillThere()) return;
    if (!this.#acked) this.#connection.await(this.#packet, acknowledged);
    this.#connection.transport?.forward(this.#acked ? withoutId(this.#packet) : this.#packet);
  }

  #stillThere(): boolean {
    return this.#connection.peer(this.#packet.ns) === this.peer;
  }
}

/** The same packet without its acknowledgement id: it was acknowledged here. */
function withoutId(packet: Packet): Outgoing {
  // Behind the type, which is a digit too; the id's own digits, for it may have been written with zeros before it.
  const head = packet.text.slice(2, packet.dataStart).replace(/\d+$/, '');
  return {
    text: packet.text.slice(0, 2) + head + packet.text.slice(packet.dataStart),
    attachments: packet.attachments,
  };
}

const sidOf = (packet: Packet): string | undefined => connectField(packet, 'sid');
const pidOf = (packet: Packet): string | undefined => connectField(packet, 'pid');

function connectField(packet: Packet, name: 'sid' | 'pid'): string | undefined {
  const data = decodeArgs(packet)?.[0];
  if (typeof data !== 'object' || data === null) return undefined;
  const value = (data as Record<string, unknown>)[name];
  return typeof value === 'string' && value !== '' ? value : undefined;
}
