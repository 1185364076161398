// The sessions that an instance knows without asking: those with a seat here, and offers that it has just heard of. Knows nothing of Redis;
// what is known may have been changed elsewhere a moment ago.
import { isDeepStrictEqual } from 'node:util';
import type { Address, InstanceId, SocketRef } from '../base/ids.js';
import type { CallKey, Session, State } from '../call/session.js';
import { link, unlink } from './links.js';

interface Known {
  session: Session;
  /** Another instance has changed it since, and did not say to what. */
  stale: boolean;
  readonly seated: boolean;
  /** When it was last said to be so; milliseconds since the epoch. */
  readonly at: number;
  /** Of one without a seat here: when it is forgotten; milliseconds since the epoch. */
  readonly until: number;
  /** The life under which the index of seats has it. */
  indexed: InstanceId | undefined;
}

/** Offers that ring here: a browser's sockets ring for a minute, so this is several a second for each of thousands. */
const MOST_HEARD = 4_096;
const HEARD_MS = 5 * 60_000;
/** Calls of which a late word must not be believed any more. */
const MOST_ENDED = 4_096;

export class KnownSessions {
  readonly #address: Address;
  readonly #now: () => number;
  readonly #sessions = new Map<string, Known>();
  readonly #heard = new Set<string>();
  readonly #bySocket = new Map<string, Set<string>>();
  readonly #byUser = new Map<string, Set<string>>();
  readonly #ended = new Set<string>();
  readonly #counts: Record<State, number> = { OFFERING: 0, CONNECTED: 0, RENEGOTIATING: 0, AWAITING_REJOIN: 0 };

  constructor(address: Address, now: () => number) {
    this.#address = address;
    this.#now = now;
  }

  /** Undefined: ask. */
  peek(key: CallKey): Session | undefined {
    const known = this.#sessions.get(keyText(key));
    if (!known || known.stale) return undefined;
    if (!known.seated && known.until < this.#now()) {
      this.#remove(keyText(key));
      return undefined;
    }
    return known.session;
  }

  /** What is known although it may have changed; for who must not miss a call. */
  last(key: CallKey): Session | undefined {
    return this.#sessions.get(keyText(key))?.session;
  }

  /** In force, by Redis's own word. */
  inForce(session: Session): void {
    const known = this.#sessions.get(keyText(session));
    // Words of Redis can be overtaken by what another instance said meanwhile.
    if (known && known.session.callId === session.callId && known.session.version > session.version) return;
    if (known || this.#isSeated(session)) this.#put(session);
  }

  /** Another instance says so. */
  heard(session: Session): void {
    const known = this.#sessions.get(keyText(session));
    if (known && known.session.callId === session.callId) {
      if (known.session.version < session.version || (known.session.version === session.version && known.stale))
        this.#put(session);
      // Two changes of one version: one of them was lost in a failover, and which must be asked.
      else if (known.session.version === session.version && !same(known.session, session)) known.stale = true;
      return;
    }
    // Two calls of one conversation: by clocks that may differ, so the one that is known is asked for again.
    if (known && known.session.createdAt > session.createdAt) known.stale = true;
    else this.#put(session);
  }

  /** It has changed, to what must be asked. */
  changed(key: CallKey, callId: string, version: number): void {
    const known = this.#sessions.get(keyText(key));
    if (known && (known.session.callId !== callId || known.session.version < version)) known.stale = true;
  }

  /** That call is over. */
  ended(key: CallKey, callId: string): Session | undefined {
    if (this.#ended.size >= MOST_ENDED)
      for (const oldest of [...this.#ended].slice(0, MOST_ENDED / 4)) this.#ended.delete(oldest);
    this.#ended.add(callText(key, callId));
    const known = this.#sessions.get(keyText(key));
    if (known?.session.callId !== callId) return undefined;
    this.#remove(keyText(key));
    return known.session;
  }

  /** Nothing stands there any more, whichever call it was. */
  absent(key: CallKey): void {
    this.#remove(keyText(key));
  }

  bySocket(ref: SocketRef): readonly { readonly session: Session; readonly stale: boolean }[] {
    return this.#found(this.#bySocket.get(socketText(ref)));
  }

  byUser(ns: string, user: string): readonly Session[] {
    return this.#found(this.#byUser.get(userText(ns, user))).map(({ session }) => session);
  }

  /** With a seat here; of the last so many milliseconds. */
  seated(within = Number.POSITIVE_INFINITY): readonly Session[] {
    const since = this.#now() - within;
    return [...this.#sessions.values()].filter(({ seated, at }) => seated && at > since).map(({ session }) => session);
  }

  /** That call was said to be so within the last so many milliseconds: then the newest that is known of it. */
  within(session: Session, ms: number): Session | undefined {
    const known = this.#sessions.get(keyText(session));
    return known?.session.callId === session.callId && known.at > this.#now() - ms ? known.session : undefined;
  }

  isIndexed(session: Session, id: InstanceId): boolean {
    const known = this.#sessions.get(keyText(session));
    return known?.session.callId === session.callId && known.indexed === id;
  }

  indexed(session: Session, id: InstanceId): void {
    const known = this.#sessions.get(keyText(session));
    if (known?.session.callId === session.callId) known.indexed = id;
  }

  counts(): Readonly<Record<State, number>> {
    return { ...this.#counts };
  }

  clear(): void {
    for (const map of [this.#sessions, this.#heard, this.#bySocket, this.#byUser]) map.clear();
    for (const state of Object.keys(this.#counts) as State[]) this.#counts[state] = 0;
  }

  isSeated(session: Session): boolean {
    return this.#isSeated(session);
  }

  #put(session: Session): void {
    if (this.#ended.has(callText(session, session.callId))) return;
    const key = keyText(session);
    const before = this.#sessions.get(key);
    this.#remove(key);
    const seated = this.#isSeated(session);
    // Of the others only an offer can become a call of this instance.
    if (!seated && session.state !== 'OFFERING') return;
    const indexed = before?.session.callId === session.callId ? before.indexed : undefined;
    const at = this.#now();
    this.#sessions.set(key, { session, stale: false, seated, at, until: at + HEARD_MS, indexed });
    if (!seated) {
      this.#heard.add(key);
      const [oldest] = this.#heard;
      if (this.#heard.size > MOST_HEARD && oldest !== undefined) this.#remove(oldest);
      return;
    }
    if (this.#countsHere(session)) this.#counts[session.state] += 1;
    for (const socket of this.#own(session)) link(this.#bySocket, socketText(socket), key);
    for (const user of usersOf(session)) link(this.#byUser, user, key);
  }

  #remove(key: string): void {
    const known = this.#sessions.get(key);
    if (!known) return;
    this.#sessions.delete(key);
    this.#heard.delete(key);
    if (!known.seated) return;
    const { session } = known;
    if (this.#countsHere(session)) this.#counts[session.state] -= 1;
    for (const socket of this.#own(session)) unlink(this.#bySocket, socketText(socket), key);
    for (const user of usersOf(session)) unlink(this.#byUser, user, key);
  }

  #found(keys: ReadonlySet<string> | undefined): readonly { readonly session: Session; readonly stale: boolean }[] {
    return keys ? [...keys].flatMap((key) => this.#sessions.get(key) ?? []) : [];
  }

  #own({ seats }: Session): SocketRef[] {
    return [seats.offerer, seats.answerer].filter((seat) => seat !== null && seat.at === this.#address) as SocketRef[];
  }

  #isSeated(session: Session): boolean {
    return this.#own(session).length > 0;
  }

  /** A call is counted by one instance: where its first seat is that is not lost. */
  #countsHere({ seats, lost }: Session): boolean {
    const first = lost.offerer && seats.answerer && !lost.answerer ? seats.answerer : seats.offerer;
    return first.at === this.#address;
  }
}

/** As JSON, whatever the order of fields. Where it errs, one more session is read. */
const same = (a: Session, b: Session): boolean =>
  isDeepStrictEqual(JSON.parse(JSON.stringify(a)), JSON.parse(JSON.stringify(b)));

/** Namespaces, ids and users are free text: JSON keeps ('a', 'b,c') and ('a,b', 'c') apart. */
export const keyText = ({ ns, conversationId }: CallKey): string => JSON.stringify([ns, conversationId]);
const callText = (key: CallKey, callId: string): string => `${keyText(key)}${callId}`;
const socketText = ({ ns, id, connection }: SocketRef): string => JSON.stringify([ns, id, connection]);
const userText = (ns: string, user: string): string => JSON.stringify([ns, user]);
const usersOf = ({ ns, users }: Session): string[] => [userText(ns, users.offerer), userText(ns, users.answerer)];
