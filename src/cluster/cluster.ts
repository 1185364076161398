// The ports to the other instances: who lives, who is connected where, and how to reach them. Drivers stand beside it (`alone.ts`
// for one instance, `redis-*.ts`). Knows nothing of calls: what is sent is a topic and a body. After docs/scale-out.md.
import type { Address, InstanceId, Namespace, SocketRef, UserId } from '../base/ids.js';
import type { Peer } from '../base/service.js';

export interface Presence {
  /** A socket is here. Told to the others in the background, and told again where that was lost. */
  add(peer: Peer): void;
  remove(peer: Peer): void;
  /** Every socket of the user on living instances, where that is known without asking; undefined: ask. */
  peek(ns: Namespace, user: UserId): readonly SocketRef[] | undefined;
  /** The same, asked for; this instance's own sockets are always in it. @throws Unavailable */
  socketsOf(ns: Namespace, user: UserId): Promise<readonly SocketRef[]>;
  /** Whether that very socket of that user is connected, wherever it is. @throws Unavailable */
  isConnected(ref: SocketRef, user: UserId): boolean | Promise<boolean>;
}

/** JSON throughout. */
export interface Message {
  /** Who understands it: `call`, `routes`, `drain`. */
  readonly topic: string;
  readonly body: unknown;
}

export interface Broker {
  /**
   * Brings a message to that process once, in the order of sending; kept and sent again (at most 30 s, 16 MiB for each process) while
   * Redis is away. What is sent to a process that died is lost with it. Nothing is awaited.
   */
  send(to: Address, message: Message): void;
  /** The same to every living instance but this one. */
  sendAll(message: Message): void;
  /** One listener for each topic; it must not throw. */
  on(topic: string, listener: (body: unknown) => void): void;
}

/** What instances tell of themselves with each renewal: JSON, under 4 KiB; what `sigfig status` shows. */
export type InstanceInfo = Readonly<Record<string, unknown>>;

export interface LivingInstance {
  readonly id: InstanceId;
  readonly address: Address;
  readonly self: boolean;
  readonly info: InstanceInfo;
  /** Since its last renewal, by Redis's clock; milliseconds. */
  readonly leaseAgeMs: number;
}

export interface Liveness {
  /** This process's own, as long as it runs. */
  readonly address: Address;
  /** Changes when this instance finds that it was declared dead. */
  readonly id: InstanceId;
  /** Whether this instance may act on calls: its last confirmed renewal was sent less than 2 s ago. Cheap. */
  mayAct(): boolean;
  /** Whether Redis answers. Cheap. */
  well(): boolean;
  /** Whether this instance does what exactly one does at a time (the reaper). Only while `mayAct()`. */
  leads(): boolean;
  /** As of the last renewal, this one included. */
  living(): readonly LivingInstance[];
  isLiving(address: Address): boolean;
  /** The same of one life. One that is not known yet counts as living for the moment that it takes to ask. */
  isLivingId(id: InstanceId): boolean;
  /** Asked at each renewal. */
  describe(info: () => InstanceInfo): void;
  /** Renews now instead of within a second, so that the others see what has changed. */
  renew(): Promise<void>;
  /**
   * An instance died, and this one took it over: `recover` handles its calls. Where it throws, or this process dies meanwhile,
   * somebody takes it over again.
   */
  onDead(recover: (dead: InstanceId, address: Address) => Promise<void>): void;
  /** This instance was declared dead (a long pause, a partition): whatever it held was taken over; it goes on as `now`. */
  onFenced(listener: (was: InstanceId, now: InstanceId) => void): void;
  /** Redis is reachable again, with `lost`: without what it held before (empty, or an older state). */
  onBack(listener: (lost: boolean) => void): void;
  /** Gives the lease up: nobody has to find out that this instance is gone. Its calls must have been handled. */
  leave(): Promise<void>;
}

export interface Cluster {
  readonly presence: Presence;
  readonly broker: Broker;
  readonly liveness: Liveness;
  close(): Promise<void>;
}
