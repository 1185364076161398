// Turns a list of moves, as fast-check makes and shrinks them, into a scenario that can be played: what can't be done at a
// point (a device drops that is not connected) is left out, and so is what differs on purpose. Knows nothing of targets.
import { type DeviceSpec, type Drop, devicesOf, type Outcome, type Play, type Step } from '../scenario.js';
import { type CallEvent, Contract, callEvents, fieldOf, type Line } from './contract.js';

/** Numbers are taken modulo what there is to choose from, so that a shrunk list of moves stays a valid one. */
export type Move =
  /** One of the requests that the contract would serve now; or one that it would refuse. */
  | { readonly move: 'fitting'; readonly pick: number; readonly ack: boolean }
  | { readonly move: 'unfitting'; readonly pick: number; readonly ack: boolean }
  | {
      readonly move: 'any';
      readonly device: number;
      readonly event: number;
      readonly conversation: number;
      readonly form: Form;
      readonly ack: boolean;
    }
  | { readonly move: 'drop'; readonly device: number; readonly how: Drop }
  | { readonly move: 'connect'; readonly device: number; readonly other: boolean }
  /** The device is on a fresh connection while the server still believes in the old one; `drop-old` ends that one. */
  | { readonly move: 'replace'; readonly device: number; readonly other: boolean }
  | { readonly move: 'drop-old'; readonly device: number };

export const forms = [
  'text',
  'map',
  'list',
  'number',
  'binary',
  'no-field',
  'null-field',
  'no-conversation',
  'no-map',
] as const;
export type Form = (typeof forms)[number];

export interface DeviceChoice {
  readonly transport: 'websocket' | 'polling';
  readonly elsewhere: boolean;
}

export interface Lifecycle {
  /** By user the devices; the first two are in the call. */
  readonly users: readonly (readonly DeviceChoice[])[];
  readonly namespace: '/' | '/calls';
  readonly group: boolean;
  readonly moves: readonly Move[];
}

export interface Scripted {
  readonly play: Play;
  /** The devices with the parties that they belong to, as a scenario file names them. */
  readonly parties: Readonly<Record<string, { readonly devices: readonly object[] }>>;
  /** What it must lead to. */
  readonly outcome: Outcome;
  /** How often something was left out for an accepted difference of docs/calls.md, by its number. */
  readonly avoided: Readonly<Record<1 | 2, number>>;
}

const names = ['alice', 'bob', 'carol', 'dave'] as const;

export function scripted(lifecycle: Lifecycle, name = 'generated'): Scripted {
  const parties = partiesOf(lifecycle);
  const devices = devicesOf(parties as Parameters<typeof devicesOf>[0]);
  const users = Object.keys(parties);
  const conversations: Record<string, string[]> = { call: ['alice', 'bob'] };
  if (users.includes('carol')) conversations.second = ['carol', 'alice'];
  if (users.includes('carol') && lifecycle.group) conversations.group = ['alice', 'bob', 'carol'];
  const script = new Script(devices, conversations);
  for (const move of lifecycle.moves) script.take(move);
  const used = new Set(['call', ...Object.keys(conversations).filter((one) => script.mentions(`$${one}`))]);
  const kept = Object.fromEntries(Object.entries(conversations).filter(([one]) => used.has(one)));
  return {
    play: { name, devices, conversations: kept, steps: script.steps, onlyOurs: [] },
    parties,
    outcome: script.contract.outcome,
    avoided: script.avoided,
  };
}

/** The same with one thing less: a move, a second device, a user besides the first two. The last moves go first. */
export function withoutOne(lifecycle: Lifecycle): Lifecycle[] {
  const { moves, users } = lifecycle;
  const fewerMoves = moves.map((_, i) => moves.toSpliced(moves.length - 1 - i, 1));
  const fewerUsers = [
    ...(users.length > 2 ? [users.slice(0, -1)] : []),
    ...users.flatMap((devices, i) => (devices.length > 1 ? [users.with(i, devices.slice(0, -1))] : [])),
  ];
  return [
    ...fewerMoves.map((fewer) => ({ ...lifecycle, moves: fewer })),
    ...fewerUsers.map((fewer) => ({ ...lifecycle, users: fewer })),
  ];
}

function partiesOf({ users, namespace }: Lifecycle): Scripted['parties'] {
  const elsewhere = namespace === '/' ? '/calls' : '/';
  return Object.fromEntries(
    users.map((devices, i) => {
      const party = names[i] as string;
      const specs = devices.map((choice, n) => ({
        name: n === 0 ? party : `${party}-phone`,
        transport: choice.transport,
        ...((choice.elsewhere ? elsewhere : namespace) === '/' ? {} : { namespace: '/calls' }),
      }));
      return [party, { devices: specs }];
    }),
  );
}

class Script {
  readonly contract: Contract;
  readonly steps: Step[] = [];
  readonly avoided = { 1: 0, 2: 0 };
  readonly #devices: readonly DeviceSpec[];
  readonly #conversations: readonly string[];
  readonly #line = new Map<DeviceSpec, Line>();
  readonly #old = new Map<DeviceSpec, Line>();
  readonly #transport = new Map<DeviceSpec, string>();
  /** Accepted difference 1: connections that sent a candidate for a call that was not there. */
  readonly #early = new Map<Line, Set<string>>();
  /** Accepted difference 2: by conversation and namespace, whose `call-end` ended the last call. */
  readonly #endedBy = new Map<string, Line>();
  /** Calls that were offered to nobody who was connected. */
  readonly #unheard = new Set<string>();
  #bodies = 0;

  constructor(devices: readonly DeviceSpec[], conversations: Readonly<Record<string, readonly string[]>>) {
    this.contract = new Contract(devices, conversations);
    this.#devices = devices;
    this.#conversations = [...Object.keys(conversations), 'nobody'].map((one) => `$${one}`);
    for (const device of devices) {
      this.#line.set(device, this.contract.connect(device));
      this.#transport.set(device, device.transport ?? 'websocket');
    }
  }

  mentions(word: string): boolean {
    return JSON.stringify(this.steps).includes(`"${word}"`);
  }

  take(move: Move): void {
    if (move.move === 'fitting' || move.move === 'unfitting') {
      this.#fitting(move.pick, move.ack, move.move === 'fitting');
      return;
    }
    const device = pick(this.#devices, move.device);
    switch (move.move) {
      case 'any': {
        const conversation = pick(this.#conversations, move.conversation);
        this.#emit(device, pick(callEvents, move.event), conversation, move.form, move.ack);
        break;
      }
      case 'drop':
        this.#drop(device, move.how);
        break;
      case 'connect':
        if (!this.#line.has(device)) this.#connect(device, move.other);
        break;
      case 'replace':
        this.#replace(device, move.other);
        break;
      case 'drop-old':
        this.#dropOld(device);
        break;
    }
  }

  /** One of the requests in live calls (or an offer that begins one), each kind as likely as any other. */
  #fitting(choice: number, ack: boolean, served: boolean): void {
    const kinds = new Map<string, { event: CallEvent; device: DeviceSpec; conversation: string }[]>();
    for (const conversation of this.#conversations) {
      for (const device of this.#devices) {
        const line = this.#line.get(device) ?? { device, open: true, ghost: false };
        for (const event of callEvents) {
          if (event !== 'call-offer' && !this.contract.live(line, conversation)) continue;
          const because = this.contract.refusal(line, event, conversation);
          if ((because === undefined) !== served) continue;
          const kind = `${event} ${because ?? ''}`;
          kinds.set(kind, [...(kinds.get(kind) ?? []), { event, device, conversation }]);
        }
      }
    }
    const likely = [...kinds].flatMap(([kind, of]) => Array.from({ length: weightOf(kind) }, () => of));
    if (likely.length === 0) return;
    const { event, device, conversation } = pick(pick(likely, choice), Math.floor(choice / likely.length));
    this.#emit(device, event, conversation, pick(['text', 'map', 'text', 'list'] as const, choice), ack);
  }

  #emit(device: DeviceSpec, event: CallEvent, conversation: string, form: Form, ack: boolean): void {
    const line = this.#line.get(device) ?? this.#connect(device, false);
    const key = `${device.namespace} ${conversation}`;
    const payload = this.#payload(event, conversation, form);
    const whole = wholeId(form) && (event === 'call-end' || (form !== 'no-field' && form !== 'null-field'));
    const live = this.contract.live(line, conversation);
    // Without an event of the backend's own in this namespace, nothing proves that the backend has refused what is no call's.
    const unproven = device.namespace !== '/' && event !== 'call-offer' && !(live && wholeId(form));
    let asks = ack || unproven;
    if (whole && event === 'ice-candidate' && !live) {
      this.#early.set(line, (this.#early.get(line) ?? new Set()).add(key));
    }
    if (whole && event === 'call-offer' && this.contract.refusal(line, event, conversation) === undefined) {
      if (this.#early.get(line)?.has(key)) {
        this.avoided[1]++;
        return;
      }
      this.#endedBy.delete(key);
      if (this.contract.rings(line, conversation)) this.#unheard.delete(key);
      else this.#unheard.add(key);
    }
    if (whole && event === 'call-end') {
      if (live && this.contract.refusal(line, event, conversation) === undefined) this.#endedBy.set(key, line);
      else if (asks && this.#endedBy.get(key) === line) {
        this.avoided[2]++;
        if (unproven) return;
        asks = false; // it is refused on every path then
      }
    }
    const args = form === 'no-map' && payload === undefined ? { args: [] } : { payload };
    this.steps.push({ emit: event, by: device.name, ...args, ...(asks ? {} : { ack: false }) });
    this.contract.emit(line, event, payload, asks);
    // The new path leaves such a call to the legacy: the callee may be there. What the one says of this call and the other of
    // the next has no order between them, unless something proves that the first has arrived.
    if (live && !this.contract.live(line, conversation) && this.#unheard.has(key)) this.steps.push({ barrier: true });
  }

  /** Each is different from all others: the very same request again differs on purpose (2). */
  #payload(event: CallEvent, conversationId: string, form: Form): unknown {
    const n = ++this.#bodies;
    const field = fieldOf[event];
    if (form === 'no-map') return [undefined, null, `text-${n}`, n, [conversationId]][n % 5];
    const body = this.#body(event, form, n);
    const rest = field === undefined || form === 'no-field' ? {} : { [field]: form === 'null-field' ? null : body };
    if (form === 'no-conversation')
      return [rest, { conversationId: '', ...rest }, { conversationId: n, ...rest }][n % 3];
    return { conversationId, ...rest };
  }

  #body(event: CallEvent, form: Form, n: number): unknown {
    const letter = event === 'ice-candidate' ? 'c' : (fieldOf[event]?.[0] ?? 'e');
    const text = `${letter}${n}`;
    if (form === 'list') return [text, { n }];
    if (form === 'number') return n;
    if (form === 'binary') return { $binary: text };
    if (form !== 'map') return text;
    return letter === 'c' ? { candidate: text, sdpMid: '0', sdpMLineIndex: 0 } : { type: fieldOf[event], sdp: text };
  }

  #connect(device: DeviceSpec, other: boolean): Line {
    this.steps.push({ connect: device.name, ...(other ? { transport: 'other' as const } : {}) });
    const before = this.#transport.get(device);
    const flipped = before === 'polling' ? 'websocket' : 'polling';
    this.#transport.set(device, other ? flipped : (device.transport ?? 'websocket'));
    const line = this.contract.connect(device);
    this.#line.set(device, line);
    return line;
  }

  #drop(device: DeviceSpec, how: Drop): void {
    const line = this.#line.get(device);
    if (!line) return;
    this.#dropOld(device);
    this.steps.push({ drop: device.name, how }, { barrier: true });
    this.#line.delete(device);
    this.contract.drop(line);
  }

  #replace(device: DeviceSpec, other: boolean): void {
    const line = this.#line.get(device);
    // With polling nothing waits at the server once it has answered the silent device's poll: only the heartbeat notices.
    if (!line || this.#old.has(device) || this.#transport.get(device) !== 'websocket') return;
    line.ghost = true;
    this.steps.push({ drop: device.name, how: 'silence', noticed: false });
    this.#old.set(device, line);
    this.#connect(device, other);
  }

  #dropOld(device: DeviceSpec): void {
    const old = this.#old.get(device);
    if (!old) return;
    this.#old.delete(device);
    this.steps.push({ drop: device.name, how: 'rst', old: true }, { barrier: true });
    this.contract.drop(old);
  }
}

/** An end ends what is interesting; glare needs the right moment. */
const weightOf = (kind: string): number => (kind.startsWith('call-end') ? 1 : kind.endsWith('retry later') ? 12 : 3);

const wholeId = (form: Form): boolean => form !== 'no-conversation' && form !== 'no-map';

function pick<T>(from: readonly T[], n: number): T {
  return from[n % from.length] as T;
}
