// The random play's world: browsers, the real connection, registry and signaling parts, and the stub's call handlers, joined by
// queues of which the play moves one after another. Keeps the facts that `verdict.ts` judges; knows no rule of a route.
import { manualClock } from '../../src/base/clock.js';
import type { ConversationId, Namespace, UserId } from '../../src/base/ids.js';
import type { Decision, Service } from '../../src/base/service.js';
import type { Session } from '../../src/call/session.js';
import { alone } from '../../src/cluster/alone.js';
import type { MembershipAnswer, Memberships } from '../../src/identity/identity.js';
import { type Packet, PacketType } from '../../src/protocol/packet.js';
import { decodeArgs } from '../../src/protocol/socketio.js';
import { createConnections } from '../../src/proxy/connection.js';
import { Registry } from '../../src/proxy/registry.js';
import { groups, type RouteTable } from '../../src/routing/route.js';
import { createLiveCalls } from '../../src/signaling/live-calls.js';
import { Signaling } from '../../src/signaling/signaling.js';
import { memorySessionStore } from '../../src/store/memory.js';
import { recordedSignals } from '../../src/telemetry/signals.js';
import { createTimelines } from '../../src/telemetry/timelines.js';
import { type Body, Browser, type Said } from './browser.js';
import { type Carrier, carry } from './carrier.js';
import { PlayedLegacy } from './legacy.js';
import { Links } from './links.js';

/** A call, by the tag of its offer. */
export interface PlayedCall {
  readonly tag: string;
  readonly conversationId: string;
  readonly offer: Said;
  /** Null until its offer is accepted. */
  path: 'legacy' | 'new' | null;
  /** Of the new path. */
  callId: string | undefined;
  /** Groups of relays that the table wanted here when the offer went to the legacy. */
  readonly peeled: Set<string>;
  /** A documented end of a claim was met: whatever comes after may belong to nobody's call. */
  forgotten: boolean;
  /** Its answer has passed from the legacy. */
  answered: boolean;
  /** Somebody left: what was under way with that connection is lost. */
  disturbed: boolean;
  /** Devices that took or asked for a seat, and users one of whose is gone. */
  readonly seats: Set<string>;
  readonly away: Set<string>;
}

export type CallState = 'pending' | 'live' | 'over';

/** What became of one call event that a browser said. */
export interface Fate {
  readonly said: Said;
  readonly decision: Decision;
  /** The table that was in force, and how many had been before it. */
  readonly table: RouteTable;
  readonly tables: number;
  /** Of the call that it is about, when it was decided; and when it was forwarded or acknowledged here. */
  readonly atDecision: CallState;
  atEnd: CallState | undefined;
}

export class World {
  readonly browsers: Browser[] = [];
  readonly calls = new Map<string, PlayedCall>();
  readonly fates = new Map<Said, Fate>();
  /** Chat too, in the order of arrival. */
  readonly atLegacy: Said[] = [];
  readonly faults: string[] = [];
  /** What happened at the proxy, in its order, for whoever reads of a broken rule. */
  readonly story: string[] = [];
  readonly clock = manualClock();
  instance: ReturnType<World['startInstance']>;
  readonly #links = new Links();
  readonly #legacy: PlayedLegacy;
  readonly #byName = new Map<string, Browser>();
  readonly #connected = new Map<Browser, Carrier>();
  readonly #left = new Map<string, Map<string, string>>();
  readonly #ending: Promise<void>[] = [];
  readonly #tables: RouteTable[] = [];
  #tags = 0;
  #callIds = 0;

  constructor(table: RouteTable) {
    this.#tables.push(table);
    this.#legacy = new PlayedLegacy(this.#links, {
      arrived: (_name, payload) => this.atLegacy.push(this.#saidIn([payload])),
      accepted: (tag) => this.#accepted(tag, 'legacy'),
    });
    this.instance = this.startInstance();
  }

  /** The one in force. */
  get table(): RouteTable {
    return this.#tables.at(-1) as RouteTable;
  }

  set table(table: RouteTable) {
    this.#tables.push(table);
  }

  /** A sigfig that knows nothing but the table in force. */
  startInstance() {
    const store = memorySessionStore();
    const signals = recordedSignals();
    const registry = new Registry();
    const signaling = new Signaling({
      ...{ store, signals, clock: this.clock, memberships: slowMemberships(this.#links), delivery: registry },
      cluster: alone(registry, 'test'),
      routes: () => this.table,
      newId: () => `call-${++this.#callIds}`,
    });
    const live = createLiveCalls({ store, signaling, signals, timelines: createTimelines({ clock: this.clock }) });
    const connections = createConnections({
      ...{ registry, signals, services: [this.#witness(signaling)], tokenFrom: [{ from: 'auth', name: 'token' }] },
      verifier: { verify: (token) => ({ ok: true, user: token as UserId }) },
    });
    return { store, connections, live };
  }

  /** A browser of this user connects. */
  connect(user: string, polling: boolean): Browser {
    const left = this.#left.get(user) ?? new Map<string, string>();
    this.#left.set(user, left);
    const browser: Browser = new Browser({
      ...{ name: `${user}-${this.browsers.length}`, user, left },
      newTag: () => `o${++this.#tags}`,
      send: (said, payload) => {
        if (said.name === 'call-offer') this.#offered(said);
        carrier.send(`42${said.n}${JSON.stringify([said.name, payload])}`);
      },
    });
    const carrier = carry(
      {
        ...{ links: this.#links, connections: this.instance.connections, polling },
        toLegacyEnd: (send) => this.#legacy.connection(send),
      },
      {
        forwarded: (packet) => this.#forwarded(packet),
        injected: (packet) => this.#injected(browser, packet),
        passes: (packet) => this.#passes(browser, packet),
        arrives: (packet, origin) => {
          const args = decodeArgs(packet) ?? [];
          if (packet.type === PacketType.CONNECT) browser.ready = true;
          else if (packet.name !== undefined) browser.hears(packet.name, args[0], origin);
          else if (packet.id !== undefined) browser.acked(packet.id, args[0], origin);
        },
        closed: () => this.#closed(browser),
      },
    );
    carrier.send(`40${JSON.stringify({ token: user })}`);
    this.browsers.push(browser);
    this.#byName.set(browser.name, browser);
    this.#connected.set(browser, carrier);
    return browser;
  }

  get connected(): Browser[] {
    return [...this.#connected.keys()];
  }

  isConnected(browser: Browser): boolean {
    return this.#connected.has(browser);
  }

  /** After what it sent; or suddenly, which loses what is under way. */
  leave(browser: Browser, sudden: boolean): void {
    const carrier = this.#connected.get(browser);
    if (!carrier) return;
    this.#connected.delete(browser);
    browser.leaves();
    for (const call of this.calls.values()) {
      if (call.conversationId.split(':').includes(browser.user)) call.disturbed = true;
    }
    carrier.close(sudden);
  }

  /** The proxy's process goes away with every connection; another starts with this table. */
  restart(table: RouteTable): void {
    for (const [browser, carrier] of this.#connected) {
      browser.leaves();
      carrier.cut();
    }
    this.#connected.clear();
    for (const call of this.calls.values()) {
      call.disturbed = true;
      call.forgotten = true;
    }
    this.table = table;
    this.instance = this.startInstance();
  }

  /** Moves what comes next in one of the queues; false where nothing is under way. */
  async move(pick: number): Promise<boolean> {
    const moved = this.#links.move(pick);
    await new Promise((resolve) => setImmediate(resolve));
    return moved;
  }

  /** Moves until nothing is under way, nor waits for a time to pass that is bounded by a second or two. */
  async quiet(): Promise<void> {
    for (let waits = 0; waits < 6; waits++) {
      for (let moves = 0; await this.move(moves * 7); moves++) {
        if (moves > 100_000) throw new Error('it never comes to rest');
      }
      this.clock.advance(500);
    }
  }

  /** The big red switch, with the end of all that the new path has; not of what begins later. */
  endAll(): void {
    const { store, live } = this.instance;
    const meant = [...(store.all() as Iterable<Session>)];
    const ending = live.endAll().then(() => {
      for (const { ns, conversationId, callId } of meant) {
        if (store.peek({ ns, conversationId })?.callId === callId) this.faults.push(`${conversationId} was not ended`);
      }
    });
    this.#ending.push(ending);
  }

  /** Everything that operators asked for is done. */
  async ended(): Promise<void> {
    await Promise.all(this.#ending);
  }

  stateOf(tag: string | undefined): CallState {
    const call = tag === undefined ? undefined : this.calls.get(tag);
    if (!call) return 'pending';
    if (call.forgotten) return 'over';
    if (call.path === null) return 'pending';
    const live =
      call.path === 'new'
        ? this.#session(call.conversationId)?.callId === call.callId
        : this.#legacy.tag(call.conversationId) === call.tag;
    return live ? 'live' : 'over';
  }

  saidBy(device: string | undefined, n: number | undefined): Said | undefined {
    return this.#byName.get(device ?? '')?.said[n ?? -1];
  }

  close(): void {
    this.#legacy.stop();
  }

  #session(conversationId: string) {
    return this.instance.store.peek({ ns: '/' as Namespace, conversationId: conversationId as ConversationId });
  }

  #offered(offer: Said): void {
    const tag = offer.about as string;
    this.calls.set(tag, {
      ...{ tag, conversationId: offer.conversationId, offer, path: null, callId: undefined },
      ...{ forgotten: false, answered: false, disturbed: false },
      ...{ seats: new Set([offer.device]), away: new Set(), peeled: new Set() },
    });
  }

  #accepted(tag: string, path: 'legacy' | 'new'): void {
    const call = this.calls.get(tag);
    if (!call) throw new Error(`nobody offered ${tag}`);
    if (call.path !== null) this.faults.push(`${tag} was accepted by ${call.path} and by ${path}`);
    call.path = path;
    this.story.push(`${call.conversationId} ${tag} accepted by ${path}`);
    if (path !== 'new') return;
    call.callId = this.#session(call.conversationId)?.callId;
    const offered = this.fates.get(call.offer)?.tables ?? 0;
    if (this.#tables.slice(offered).every((table) => isExcluded(table, call.offer))) {
      this.faults.push(`${shown(call.offer)} was accepted here, and every table since excluded it`);
    }
  }

  /** Sees each event as the service gets it, and what was decided of it. */
  #witness(signaling: Signaling): Service {
    return {
      ...{ name: signaling.name, events: signaling.events, watched: signaling.watched },
      watching: () => signaling.watching(),
      passed: (event) => signaling.passed(event),
      connected: (peer) => signaling.connected(peer),
      disconnected: (peer, cause) => signaling.disconnected(peer, cause),
      owns: (ns, conversationId) => signaling.owns(ns, conversationId),
      route: (event) => {
        const said = this.#saidIn(event.args);
        const { table } = this;
        const atDecision = this.stateOf(said.about);
        const routed = signaling.route(event);
        if (this.fates.has(said)) this.faults.push(`${shown(said)} was decided twice`);
        const { path, because } = routed.decision;
        this.story.push(`${shown(said)}: ${path} (${because}), its call ${atDecision} [${table.summary}]`);
        const tables = this.#tables.length - 1;
        this.fates.set(said, { said, decision: routed.decision, table, tables, atDecision, atEnd: undefined });
        return routed;
      },
    };
  }

  #forwarded(packet: Packet): void {
    if (packet.name === undefined) return;
    const said = this.#saidIn(decodeArgs(packet) ?? []);
    this.story.push(`${shown(said)} goes to the legacy`);
    const fate = this.fates.get(said);
    if (fate) fate.atEnd ??= this.stateOf(said.about);
    // A participant's end is about whichever call the conversation has.
    if (said.name === 'call-end') {
      for (const one of this.calls.values()) {
        if (one.conversationId === said.conversationId && one.path !== 'new') one.forgotten = true;
      }
    }
    const call = said.about === undefined ? undefined : this.calls.get(said.about);
    if (!call || call.path === 'new') return;
    if (said.name === 'call-offer') {
      for (const group of ['ice-candidate', 'call-renegotiation'] as const) {
        const event = groups[group][0] as string;
        const wanted = this.table.wants('/', event, said.conversationId, said.user);
        if (wanted.path === 'new' && !this.table.excludes('/', event, calleeOf(said))) call.peeled.add(group);
      }
    }
    if (said.name === 'call-answer' || said.name === 'call-rejoin-offer') call.seats.add(said.device);
  }

  #injected(browser: Browser, packet: Packet): void {
    if (packet.type !== PacketType.ACK || packet.id === undefined) return;
    const said = browser.said[packet.id] as Said;
    const answer = decodeArgs(packet)?.[0] as { ok?: boolean };
    if (said.name === 'call-offer' && answer.ok) this.#accepted(said.about as string, 'new');
    const fate = this.fates.get(said);
    if (fate) fate.atEnd ??= this.stateOf(said.about);
  }

  #passes(browser: Browser, packet: Packet): void {
    const arg = (decodeArgs(packet) ?? [])[0] as { answer?: Body; offer?: Body; fromUserId: string };
    this.story.push(`${packet.name ?? `packet ${packet.id}`} ${JSON.stringify(arg)} passes to ${browser.name}`);
    const call = this.calls.get((arg?.answer ?? arg?.offer)?.about ?? '');
    if (packet.name === 'call-answer' && call) call.answered = true;
    if (packet.name === 'call-rejoin-offer' && call) call.away.delete(arg.fromUserId);
  }

  /** A connection is gone at the proxy: the ends of a claim that docs/routes.md names. */
  #closed(browser: Browser): void {
    this.story.push(`${browser.name} is gone`);
    for (const call of this.calls.values()) {
      if (!call.seats.has(browser.name) || call.path === 'new') continue;
      call.away.add(browser.user);
      if (call.away.size === 2 || (!call.answered && call.offer.device === browser.name)) call.forgotten = true;
    }
  }

  #saidIn(args: readonly unknown[]): Said {
    const { from, n } = args[0] as { from: string; n: number };
    const said = this.saidBy(from, n);
    if (!said) throw new Error('nobody said that');
    return said;
  }
}

export const shown = ({ name, device, n, about, conversationId }: Said): string =>
  `${conversationId} ${name} ${device}#${n} about ${about ?? 'no call'}`;

const calleeOf = ({ conversationId, user }: Said): string =>
  conversationId
    .split(':')
    .slice(1)
    .find((id) => id !== user) as string;

/** Whether a canary never takes a call that this offer begins. */
function isExcluded(table: RouteTable, offer: Said): boolean {
  const exclude = table.route('/', 'call-offer').canary?.exclude;
  if (!exclude) return false;
  return (
    exclude.conversations.includes(offer.conversationId) ||
    [offer.user, calleeOf(offer)].some((user) => exclude.users.includes(user))
  );
}

/** Tickets are a question with an answer that comes when it comes; then that user's is known, and nobody else's. */
function slowMemberships(links: Links): Memberships {
  const answers = links.open<() => void>((answer) => answer());
  const known = new Set<string>();
  const of = (id: ConversationId) => ({ participants: id.split(':').slice(1) as [UserId, UserId] });
  return {
    cached: (user, id) => (known.has(`${user} ${id}`) ? of(id) : undefined),
    own: () => undefined,
    ask: (_token, user, id) =>
      new Promise<MembershipAnswer>((resolve) =>
        answers.push(() => {
          known.add(`${user} ${id}`);
          resolve({ kind: 'granted', membership: of(id) });
        }),
      ),
  };
}
