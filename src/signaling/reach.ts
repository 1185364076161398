// Runs what a step makes others hear, wherever their sockets are: here at once, on another instance in one message to it, and
// what is for a seat that is held waits with its call. Knows no rule of a call and no transport. After docs/scale-out.md.
import { type Address, type Namespace, type SocketRef, sameSocket, type UserId } from '../base/ids.js';
import type { InboundEvent } from '../base/service.js';
import { Unavailable } from '../base/unavailable.js';
import { audience, ended } from '../call/effects.js';
import type { CallKey, Effect, Role, ServerEvent, Session } from '../call/session.js';
import type { Cluster } from '../cluster/cluster.js';
import type { Kept, SessionStore } from '../store/store.js';
import type { Signals } from '../telemetry/signals.js';
import { type Delivery, refuse } from './deliver.js';
import { type Emit, write } from './told.js';

export interface ReachDeps {
  readonly cluster: Cluster;
  readonly delivery: Delivery;
  readonly store: SessionStore;
  readonly signals: Signals;
}

/** Where users of a step's effects are; null where that could not be asked for. */
export type Whereabouts = ReadonlyMap<UserId, readonly SocketRef[] | Promise<readonly SocketRef[] | null>>;

/** A step that is in force. */
export interface Done {
  readonly key: CallKey;
  readonly before: Session | null;
  readonly after: Session | null;
  readonly effects: readonly Effect[];
  /** Whoever is to be acknowledged or refused; undefined: nobody any more. */
  readonly event: InboundEvent | undefined;
  /** What was kept for seats that have a socket again, oldest first. */
  readonly kept?: Readonly<Partial<Record<Role, readonly Kept[]>>> | undefined;
}

/** More follow a seat that moves from one instance to the next and again while a message is on its way. */
const mostMoves = 4;
/** Messages for held seats on their way to Redis, a round trip each, 1 KB or so: more are dropped. */
const mostQueued = 10_000;
const roles = ['offerer', 'answerer'] as const;

export class Reach {
  readonly #deps: ReachDeps;
  /** What is on its way to where a call keeps it, by seat: it stays in order. */
  readonly #queues = new Map<string, Promise<void>>();
  #queued = 0;
  readonly #settled: (key: CallKey) => Promise<void> | null;
  /** The call is over, so that nothing can be kept with it, and this is for a seat that was held (`holds.ts`). */
  owe: ((session: Session, role: Role, message: Kept) => void) | undefined;

  /** `settled`: resolves once the change that is being made to that call is told. */
  constructor(deps: ReachDeps, settled: (key: CallKey) => Promise<void> | null) {
    this.#deps = deps;
    this.#settled = settled;
  }

  isHere(ref: SocketRef): boolean {
    return ref.at === undefined || ref.at === this.#deps.cluster.liveness.address;
  }

  /** Where the users are whose every socket is to hear something. `known`: what was asked for already. */
  find(effects: readonly Effect[], ns: Namespace, known?: ReadonlyMap<UserId, readonly SocketRef[]>): Whereabouts {
    let found: Map<UserId, readonly SocketRef[] | Promise<readonly SocketRef[] | null>> | undefined;
    for (const effect of effects) {
      if (effect.kind !== 'emit' || 'socket' in effect.to) continue;
      const { user } = effect.to;
      if (found?.has(user)) continue;
      found ??= new Map();
      const { presence } = this.#deps.cluster;
      found.set(user, known?.get(user) ?? presence.peek(ns, user) ?? presence.socketsOf(ns, user).catch(() => null));
    }
    return found ?? nobody;
  }

  /** A promise only where it is not known yet where a user is: everybody else, and the acknowledgement, does not wait for that. */
  run(done: Done, found: Whereabouts): void | Promise<void> {
    const { key, before, after, effects, event, kept } = done;
    const out = new Outbox();
    const call = after ?? before;
    if (kept && after) this.#handOver(after, kept, out);
    let pending: { readonly effect: EmitEffect; readonly sockets: Promise<readonly SocketRef[] | null> }[] | undefined;
    for (const effect of effects) {
      switch (effect.kind) {
        case 'emit': {
          if ('socket' in effect.to) {
            const owed = before && !after && heldSeat(before, effect.to.socket);
            if (owed) this.owe?.(before, owed, { event: effect.event, arg: effect.arg });
            else this.#tell(after, effect.to.socket, effect.event, effect.arg, out);
            break;
          }
          const sockets = found.get(effect.to.user) ?? null;
          if (sockets instanceof Promise) {
            pending ??= [];
            pending.push({ effect, sockets });
          } else this.#tellAll(effect, sockets, key.ns, out);
          break;
        }
        case 'ack':
          event?.ack(effect.arg);
          break;
        case 'refuse':
          if (event) refuse(event, effect.refusal, this.#deps.delivery, this.#deps.signals);
          break;
        case 'candidate-dropped':
          this.#deps.signals.candidateDropped(effect.why);
          break;
      }
    }
    if (call) this.#send(out, call, before, after);
    if (!pending || !call) return undefined;
    return this.#later(pending, call, before, after);
  }

  /** A message of a call to these very sockets, wherever they are. */
  tell(call: Session, sockets: readonly SocketRef[], { event, arg }: Kept): void {
    const out = new Outbox();
    for (const ref of sockets) this.#tell(null, ref, event, arg, out);
    this.#flush(out, call);
  }

  /**
   * A message from another instance for a seat whose socket is not here any more: where the seat is now, it goes there. But not where its
   * call was broken off since: whoever has the seat by a rejoin has begun anew. @throws Unavailable
   */
  async follow(
    { callId, version, ...key }: CallKey & Pick<Session, 'callId' | 'version'>,
    role: Role,
    ref: SocketRef,
    event: ServerEvent,
    arg: unknown,
  ): Promise<void> {
    const session = await this.#deps.store.get(key);
    const seat = session?.seats[role];
    if (!session || !seat || session.callId !== callId || session.lost[role] || isBroken(session, version)) return;
    if (sameSocket(seat, ref) && session.held?.[role] === undefined) return;
    const out = new Outbox();
    this.#tell(session, seat, event, arg, out);
    this.#flush(out, session);
  }

  /** Nobody can read the call's session any more: whoever is known of it here is told of its end, and the other instances tell theirs. */
  lost(session: Session): void {
    const out = new Outbox();
    for (const effect of ended(session, audience(session), 'operator')) {
      if (effect.kind !== 'emit') continue;
      if ('user' in effect.to) {
        if (this.isHere(session.seats.offerer)) this.#tellAll(effect, null, session.ns, out);
      } else if (this.isHere(effect.to.socket)) this.#deps.delivery.emit(effect.to.socket, effect.event, effect.arg);
    }
    this.#flush(out, session, null);
  }

  async #later(
    pending: readonly { readonly effect: EmitEffect; readonly sockets: Promise<readonly SocketRef[] | null> }[],
    call: Session,
    before: Session | null,
    after: Session | null,
  ): Promise<void> {
    const out = new Outbox();
    for (const { effect, sockets } of pending) this.#tellAll(effect, await sockets, call.ns, out);
    this.#flush(out, call, stands(before, after));
  }

  #tell(session: Session | null, ref: SocketRef, event: ServerEvent, arg: unknown, out: Outbox): void {
    const role = session?.seats.offerer.at === undefined ? undefined : roleOf(session, ref);
    const waits = session && role && (session.held?.[role] !== undefined || this.#queues.has(seatKey(session, role)));
    if (waits) this.#queue(session, role, { event, arg });
    else this.#emit(ref, event, arg, out, role);
  }

  #emit(ref: SocketRef, event: ServerEvent, arg: unknown, out: Outbox, seat?: Role): void {
    if (this.isHere(ref)) this.#deps.delivery.emit(ref, event, arg);
    else out.add(ref.at as Address, ref, event, arg, seat);
  }

  #tellAll(effect: EmitEffect, sockets: readonly SocketRef[] | null, ns: Namespace, out: Outbox): void {
    const { to, event, arg } = effect;
    if ('socket' in to) return;
    // Who could not be asked for is looked for by every instance among its own.
    const all = sockets ?? this.#deps.delivery.socketsOf(ns, to.user);
    if (sockets === null) out.toEverybody({ to, event, arg });
    for (const ref of all) {
      if (to.except.some((e) => e.id === ref.id && e.connection === ref.connection)) continue;
      this.#emit(ref, event, arg, out);
    }
  }

  #handOver(session: Session, kept: NonNullable<Done['kept']>, out: Outbox): void {
    for (const role of roles) {
      const seat = session.seats[role];
      for (const { event, arg } of kept[role] ?? []) if (seat) this.#emit(seat, event, arg, out, role);
    }
  }

  /** Behind what is on its way for that seat already. */
  #queue(session: Session, role: Role, message: Kept): void {
    const k = seatKey(session, role);
    if (this.#queued >= mostQueued) {
      this.#deps.signals.bound('kept', {});
      return;
    }
    this.#queued += 1;
    const queued = (this.#queues.get(k) ?? Promise.resolve())
      .then(() => this.#keep(session, role, message))
      .catch((error) => {
        // Its sender was told that it is delivered; without Redis nobody could keep it.
        if (error instanceof Unavailable) this.#deps.signals.candidateDropped('not-kept');
        else this.#deps.signals.internalError('keeping a message for a held seat', error);
      })
      .finally(() => {
        this.#queued -= 1;
        if (this.#queues.get(k) === queued) this.#queues.delete(k);
      });
    this.#queues.set(k, queued);
  }

  async #keep(session: Session, role: Role, message: Kept): Promise<void> {
    let call = session;
    for (let moves = 0; call.held?.[role] !== undefined && moves < mostMoves; moves++) {
      const { kept, session: now } = await this.#deps.store.keep(call, role, message);
      if (kept || now?.callId !== session.callId || now.lost[role] || isBroken(now, session.version)) return;
      call = now;
    }
    // The seat has a socket meanwhile. What was kept comes before: here it may be about to be handed over.
    const seat = call.seats[role];
    if (!seat) return;
    if (this.isHere(seat)) await this.#settled(call);
    const out = new Outbox();
    this.#emit(seat, message.event, message.arg, out, role);
    this.#flush(out, call);
  }

  /** Whoever holds a seat of a call that has changed hears of that as well. */
  #send(out: Outbox, call: Session, before: Session | null, after: Session | null): void {
    if (before !== after) {
      for (const session of [before, after]) {
        if (!session) continue;
        for (const role of roles) {
          const at = session.seats[role]?.at;
          if (at !== undefined && at !== this.#deps.cluster.liveness.address) out.note(at);
        }
      }
    }
    this.#flush(out, call, stands(before, after));
  }

  #flush(out: Outbox, call: Session, session?: Session | null | 'ask'): void {
    const { byAddress, everybody } = out;
    if (!byAddress && !everybody) return;
    const { broker } = this.#deps.cluster;
    const { ns, conversationId, callId, version, broken } = call;
    const told = {
      ...{ ns, conversationId, callId, version },
      ...(session === undefined ? {} : { session }),
      ...(session === 'ask' && broken !== undefined ? { broken } : {}),
    };
    for (const [at, emits] of byAddress ?? []) broker.send(at, { topic: 'call', body: write({ ...told, emits }) });
    if (everybody) broker.sendAll({ topic: 'call', body: write({ ...told, emits: everybody }) });
  }
}

/** Whether what was sent to that version of the call is of before a rejoin. */
const isBroken = ({ broken = 0 }: Session, version: number): boolean => broken > version;

type EmitEffect = Extract<Effect, { kind: 'emit' }>;

/** What one step has for each other instance. */
class Outbox {
  /** Alone there is never anything. */
  byAddress: Map<Address, Emit[]> | undefined;
  everybody: Emit[] | undefined;

  note(at: Address): void {
    this.byAddress ??= new Map();
    if (!this.byAddress.has(at)) this.byAddress.set(at, []);
  }

  toEverybody(emit: Emit): void {
    this.everybody ??= [];
    this.everybody.push(emit);
  }

  add(at: Address, ref: SocketRef, event: string, arg: unknown, seat?: Role): void {
    this.byAddress ??= new Map();
    const emits = this.byAddress.get(at);
    if (!emits) {
      this.byAddress.set(at, [{ to: [ref], event, arg, seat }]);
      return;
    }
    const last = emits.at(-1);
    // What rings many devices is written once.
    if (last && last.event === event && last.arg === arg && !('user' in last.to) && !last.seat && !seat) {
      emits[emits.length - 1] = { ...last, to: [...last.to, ref] };
    } else emits.push({ to: [ref], event, arg, seat });
  }
}

const seatKey = ({ ns, conversationId }: Session, role: Role): string => `${role} ${ns}\n${conversationId}`;
const nobody: Whereabouts = new Map();

/** The seat that this socket had and that waits for its user's next one. */
function heldSeat(session: Session, ref: SocketRef): Role | undefined {
  if (!session.held) return undefined;
  const role = roleOf(session, ref);
  return role && session.held[role] !== undefined ? role : undefined;
}

function roleOf({ seats }: Session, ref: SocketRef): Role | undefined {
  return roles.find((role) => {
    const seat = seats[role];
    return seat !== null && sameSocket(seat, ref);
  });
}

/** How a changed call is told: candidates and a kept offer, which may be large, stay where they are. */
function stands(before: Session | null, after: Session | null): Session | null | 'ask' | undefined {
  if (before === after) return undefined;
  return after === null || (after.candidates.length === 0 && after.keptOffer === null) ? after : 'ask';
}
