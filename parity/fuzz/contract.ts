// docs/calls.md once more, as small as it gets: who receives what, in a play whose steps come one after another. It says
// what a generated lifecycle must lead to, and which moves make sense in it. Knows nothing of connections or targets, and
// shares no code with the implementations that it is held against.
import type { DeviceSpec, Expected, Outcome } from '../scenario.js';

export const callEvents = [
  'call-offer',
  'call-answer',
  'ice-candidate',
  'call-renegotiate-offer',
  'call-renegotiate-answer',
  'call-rejoin-offer',
  'call-rejoin-answer',
  'call-end',
] as const;
export type CallEvent = (typeof callEvents)[number];

/** What each event carries besides `conversationId`. */
export const fieldOf: Readonly<Record<CallEvent, 'offer' | 'answer' | 'iceCandidate' | undefined>> = {
  'call-offer': 'offer',
  'call-answer': 'answer',
  'ice-candidate': 'iceCandidate',
  'call-renegotiate-offer': 'offer',
  'call-renegotiate-answer': 'answer',
  'call-rejoin-offer': 'offer',
  'call-rejoin-answer': 'answer',
  'call-end': undefined,
};

/** One connection of a device: a seat is on a connection, not on a device. */
export interface Line {
  readonly device: DeviceSpec;
  /** False once its end was noticed. */
  open: boolean;
  /** The device lost it in silence: the server still sends there, and nobody reads it. */
  ghost: boolean;
}

type Role = 'offerer' | 'answerer';
type State = 'OFFERING' | 'CONNECTED' | 'RENEGOTIATING' | 'AWAITING_REJOIN';

interface Call {
  readonly users: Readonly<Record<Role, string>>;
  readonly seats: Record<Role, Line | undefined>;
  state: State;
  /** Whoever renegotiates, was lost, or rejoins; undefined in a first offer. */
  by: Role | undefined;
  buffer: unknown[];
}

const otherOf = (role: Role): Role => (role === 'offerer' ? 'answerer' : 'offerer');
const listed = new Set<CallEvent>(['call-answer', 'call-rejoin-answer']);

export class Contract {
  readonly #conversations: Readonly<Record<string, readonly string[]>>;
  readonly #received: Record<string, Expected[]>;
  readonly #lines: Line[] = [];
  readonly #calls = new Map<string, Call>();

  constructor(devices: readonly DeviceSpec[], conversations: Readonly<Record<string, readonly string[]>>) {
    this.#conversations = conversations;
    this.#received = Object.fromEntries(devices.map(({ name }) => [name, []]));
  }

  /** By device what it has received, in the form of an expectation. */
  get outcome(): Outcome {
    return this.#received;
  }

  connect(device: DeviceSpec): Line {
    const line = { device, open: true, ghost: false };
    this.#lines.push(line);
    return line;
  }

  /** The server notices that this connection has ended. */
  drop(line: Line): void {
    line.open = false;
    for (const [key, call] of [...this.#calls]) {
      const role = this.#roleOfSeat(call, line);
      if (!role) continue;
      const conversationId = conversationOf(key);
      call.seats[role] = undefined;
      const left = call.seats[otherOf(role)];
      if (isRinging(call)) {
        this.#calls.delete(key);
        const told = { conversationId, reason: 'offerer-left', userId: `$${call.users.offerer}` };
        for (const one of this.#linesOf(call.users.answerer, line)) this.#deliver(one, 'call-ended', told);
      } else if (left) {
        call.state = 'AWAITING_REJOIN';
        call.by = role;
        this.#deliver(left, 'call-peer-disconnected', { conversationId, userId: `$${call.users[role]}` });
      } else {
        this.#calls.delete(key);
      }
    }
  }

  /**
   * `payload` as in a scenario; `undefined` for none. `line` is an open connection.
   * Deliveries first, then the acknowledgement; a refusal is an `error` event and its acknowledgement.
   */
  emit(line: Line, event: CallEvent, payload: unknown, ack: boolean): void {
    const received = this.#received[line.device.name] as Expected[];
    const conversation = conversationIn(payload);
    const because = malformed(event, payload) ?? this.refusal(line, event, conversation ?? '');
    if (because !== undefined) {
      received.push({
        refused: event,
        because,
        ...(conversation === '$call' ? {} : { conversation: conversation ?? null }),
        ...(ack ? {} : { ack: false as const }),
      });
      return;
    }
    const field = fieldOf[event];
    const body = field && (payload as Record<string, unknown>)[field];
    const candidates = this.#serve(line, event, conversation as string, body);
    if (!ack) for (const candidate of candidates) received.push({ 'ice-candidate': candidate });
    else received.push(listed.has(event) ? { ack: event, with: candidates } : { ack: event });
  }

  /** The text that a well-formed request would be refused with; undefined where it would be served. */
  refusal(line: Line, event: CallEvent, conversation: string): string | undefined {
    const { party } = line.device;
    const call = this.#calls.get(keyOf(line, conversation));
    if (event === 'call-offer') {
      const members = this.#conversations[conversation.slice(1)] ?? [];
      if (members.length !== 2 || !members.includes(party)) return 'Not a participant';
      if (!call) return undefined;
      return call.state === 'AWAITING_REJOIN' ? 'Call is recovering, rejoin instead' : 'Call already in progress';
    }
    if (!call) return event === 'ice-candidate' ? undefined : 'No such call';
    const role = roleOf(call, party);
    if (!role) {
      if (event === 'call-answer' && isRinging(call)) return 'Not allowed to answer';
      return event === 'call-rejoin-offer' && call.state === 'AWAITING_REJOIN'
        ? 'Nothing to rejoin'
        : 'Not a participant';
    }
    const seated = call.seats[role] === line;
    const rejoining = call.state === 'OFFERING' && !isRinging(call);
    switch (event) {
      case 'call-answer':
        if (!isRinging(call)) return 'No offer to answer';
        return role === 'answerer' ? undefined : 'Not allowed to answer';
      case 'ice-candidate':
        return isRinging(call) || call.state === 'AWAITING_REJOIN' || seated ? undefined : 'Not the active device';
      case 'call-renegotiate-offer':
        if (call.state === 'OFFERING' || call.state === 'AWAITING_REJOIN')
          return `Cannot renegotiate from state ${call.state}`;
        if (!seated) return 'Not the active device';
        if (call.state === 'CONNECTED') return undefined;
        return call.by === role
          ? 'Cannot renegotiate from state RENEGOTIATING'
          : 'Renegotiation in progress, retry later';
      case 'call-renegotiate-answer':
        if (call.state !== 'RENEGOTIATING') return 'No renegotiation to answer';
        if (!seated) return 'Not the active device';
        return call.by === role ? 'No renegotiation to answer' : undefined;
      case 'call-rejoin-offer': {
        const may = call.state === 'AWAITING_REJOIN' ? call.by === role : !isRinging(call) && !seated;
        return may ? undefined : 'Nothing to rejoin';
      }
      case 'call-rejoin-answer':
        if (!rejoining || call.by === role) return 'No rejoin to answer';
        return seated ? undefined : 'Not the active device';
      case 'call-end':
        return undefined;
    }
  }

  /** Whether there is a call in this conversation where this connection is. */
  live(line: Line, conversation: string): boolean {
    return this.#calls.has(keyOf(line, conversation));
  }

  /** Whether an offer would ring anywhere. */
  rings(line: Line, conversation: string): boolean {
    const other = this.#conversations[conversation.slice(1)]?.find((one) => one !== line.device.party);
    return other !== undefined && this.#linesOf(other, line).length > 0;
  }

  /** Of a request that is served; returns the candidates that an answer is given. */
  #serve(line: Line, event: CallEvent, conversationId: string, body: unknown): unknown[] {
    const key = keyOf(line, conversationId);
    const { party } = line.device;
    const fromUserId = `$${party}`;
    if (event === 'call-offer') {
      const members = this.#conversations[conversationId.slice(1)] as readonly string[];
      const users = { offerer: party, answerer: members.find((one) => one !== party) as string };
      const seats = { offerer: line, answerer: undefined };
      this.#calls.set(key, { users, seats, state: 'OFFERING', by: undefined, buffer: [] });
      const told = { conversationId, offer: body, fromUserId };
      for (const one of this.#linesOf(users.answerer, line)) this.#deliver(one, event, told);
      return [];
    }
    const call = this.#calls.get(key);
    if (!call) return []; // a candidate that trails the end
    const role = roleOf(call, party) as Role;
    const other = call.seats[otherOf(role)];
    switch (event) {
      case 'ice-candidate': {
        if (call.state === 'AWAITING_REJOIN') return [];
        const waits = call.state === 'OFFERING' && role === (call.by ?? 'offerer');
        if (!waits) this.#deliver(other, event, body);
        else if (call.buffer.length < 256) call.buffer.push(body);
        return [];
      }
      case 'call-renegotiate-offer':
        call.state = 'RENEGOTIATING';
        call.by = role;
        this.#deliver(other, event, { conversationId, offer: body, fromUserId });
        return [];
      case 'call-renegotiate-answer':
        call.state = 'CONNECTED';
        this.#deliver(other, event, { conversationId, answer: body, fromUserId });
        return [];
      case 'call-rejoin-offer':
        call.seats[role] = line;
        call.state = 'OFFERING';
        call.by = role;
        call.buffer = [];
        this.#deliver(other, event, { conversationId, offer: body, fromUserId });
        return [];
      case 'call-answer':
      case 'call-rejoin-answer': {
        if (event === 'call-answer') call.seats.answerer = line;
        call.state = 'CONNECTED';
        this.#deliver(other, event, { conversationId, answer: body, fromUserId });
        const told = { conversationId, reason: 'answered-elsewhere', userId: fromUserId };
        if (event === 'call-answer')
          for (const one of this.#linesOf(party, line)) if (one !== line) this.#deliver(one, 'call-ended', told);
        return call.buffer.splice(0);
      }
      case 'call-end': {
        this.#calls.delete(key);
        const told = { conversationId, reason: 'hangup', userId: fromUserId };
        const ringing = isRinging(call) ? this.#linesOf(call.users.answerer, line) : [];
        for (const one of new Set([call.seats.offerer, call.seats.answerer, ...ringing])) {
          if (one !== line) this.#deliver(one, 'call-ended', told);
        }
        return [];
      }
    }
  }

  #deliver(line: Line | undefined, event: string, payload: unknown): void {
    if (line?.open && !line.ghost) this.#received[line.device.name]?.push({ [event]: payload });
  }

  /** Every connection of a user in the namespace of this one. */
  #linesOf(party: string, { device: { namespace } }: Line): Line[] {
    return this.#lines.filter(({ device, open }) => open && device.party === party && device.namespace === namespace);
  }

  #roleOfSeat(call: Call, line: Line): Role | undefined {
    return (['offerer', 'answerer'] as const).find((role) => call.seats[role] === line);
  }
}

/** A first offer that was not answered yet. */
const isRinging = (call: Call): boolean => call.state === 'OFFERING' && call.by === undefined;

const roleOf = ({ users }: Call, party: string): Role | undefined =>
  users.offerer === party ? 'offerer' : users.answerer === party ? 'answerer' : undefined;

const keyOf = ({ device }: Line, conversation: string): string => `${device.namespace} ${conversation}`;
const conversationOf = (key: string): string => key.slice(key.indexOf(' ') + 1);

/** Undefined where the payload has no valid one. */
function conversationIn(payload: unknown): string | undefined {
  if (typeof payload !== 'object' || payload === null || Array.isArray(payload)) return undefined;
  const { conversationId } = payload as { conversationId?: unknown };
  return typeof conversationId === 'string' && conversationId !== '' ? conversationId : undefined;
}

function malformed(event: CallEvent, payload: unknown): string | undefined {
  if (typeof payload !== 'object' || payload === null || Array.isArray(payload)) {
    return `Malformed ${event}: payload must be an object`;
  }
  if (conversationIn(payload) === undefined) {
    return `Malformed ${event}: conversationId must be a non-empty string of at most 256 characters`;
  }
  const field = fieldOf[event];
  const missing = field !== undefined && ((payload as Record<string, unknown>)[field] ?? null) === null;
  return missing ? `Malformed ${event}: ${field} is missing` : undefined;
}
