// The 1:1 calls of the legacy backend: its handlers for the eight call events, and the state of each call.
// Relays descriptions and candidates between two users without ever looking inside them.
// Knows nothing of tokens, chat or how membership is kept.
import type { Namespace, Socket } from 'socket.io';
import type { User } from './auth.js';
import type { MembershipStore } from './membership.js';

export interface CallOptions {
  readonly membership: Pick<MembershipStore, 'participants'>;
  /** How long a user who dropped may take to come back, in ms. */
  readonly rejoinTimeoutMs: number;
  /** How often the reaper looks, in ms. */
  readonly reapIntervalMs: number;
  /** A call that nothing changed for so long is dropped, in ms. */
  readonly callLimitMs: number;
  readonly log: (line: string) => void;
}

export interface Calls {
  /** Serves call events on this namespace; a call belongs to the namespace of its offer. */
  attach(namespace: Namespace): void;
  /** State of a call, for tests and the log; undefined where there is none. */
  state(namespace: string, conversationId: string): Phase['state'] | undefined;
  readonly size: number;
  stop(): void;
}

interface Seat {
  readonly user: string;
  /** Undefined before the answer, and while this user is away. */
  socket: Socket | undefined;
}

type Phase =
  | { state: 'OFFERING'; rejoiner: Seat | undefined }
  | { state: 'CONNECTED' }
  | { state: 'RENEGOTIATING'; by: Seat }
  | { state: 'AWAITING_REJOIN'; dropped: Seat; since: number };

interface Call {
  readonly conversationId: string;
  readonly namespace: Namespace;
  readonly offerer: Seat;
  readonly answerer: Seat;
  phase: Phase;
  /** Candidates of the offerer (first offer) or of the rejoiner, until the answer. */
  buffer: unknown[];
  changedAt: number;
}

interface Request {
  readonly socket: Socket;
  readonly namespace: Namespace;
  readonly user: string;
  readonly conversationId: string;
  /** The offer, answer or candidate, relayed as it came. */
  readonly body: unknown;
}

/** Buffered candidates are what the two answer events acknowledge with; the others answer nothing but `{ ok: true }`. */
type Handler = (request: Request) => undefined | unknown[];
type Ack = (answer: unknown) => void;
type Reason = 'hangup' | 'offerer-left' | 'answered-elsewhere' | 'rejoin-timeout';

class Refusal extends Error {}

const MAX_BUFFERED = 256;
const MAX_ID = 256;
/** Writing down what is nested much deeper (`JSON.stringify`) runs out of stack. */
const MAX_DEPTH = 1_000;
const FIELD = {
  'call-offer': 'offer',
  'call-answer': 'answer',
  'ice-candidate': 'iceCandidate',
  'call-renegotiate-offer': 'offer',
  'call-renegotiate-answer': 'answer',
  'call-rejoin-offer': 'offer',
  'call-rejoin-answer': 'answer',
  'call-end': undefined,
} as const;
type CallEvent = keyof typeof FIELD;

export function createCalls(options: CallOptions): Calls {
  const calls = new Map<string, Call>();
  const seatsOf = new WeakMap<Socket, Set<Call>>();
  /** Per socket and conversation: the end of what waits behind an offer whose membership is being looked up. */
  const waiting = new WeakMap<Socket, Map<string, Promise<void>>>();

  const keyOf = (namespace: string, conversationId: string) => `${namespace} ${conversationId}`;
  const find = (r: Request) => calls.get(keyOf(r.namespace.name, r.conversationId));

  // --- state -------------------------------------------------------------------------------------------------------

  function take(call: Call, seat: Seat, socket: Socket): void {
    if (seat.socket) seatsOf.get(seat.socket)?.delete(call);
    seat.socket = socket;
    const seats = seatsOf.get(socket) ?? new Set();
    seatsOf.set(socket, seats.add(call));
  }

  function enter(call: Call, phase: Phase): void {
    call.phase = phase;
    call.changedAt = Date.now();
  }

  function end(call: Call): void {
    calls.delete(keyOf(call.namespace.name, call.conversationId));
    for (const { socket } of [call.offerer, call.answerer]) if (socket) seatsOf.get(socket)?.delete(call);
  }

  function ended(call: Call, reason: Reason, userId: string): object {
    return { conversationId: call.conversationId, reason, userId };
  }

  function buffer(call: Call, candidate: unknown): void {
    if (call.buffer.length >= MAX_BUFFERED) {
      options.log(`${MAX_BUFFERED} candidates wait for an answer in ${call.conversationId}: one more is dropped`);
      return;
    }
    call.buffer.push(candidate);
    call.changedAt = Date.now();
  }

  function takeBuffer(call: Call): unknown[] {
    const candidates = call.buffer;
    call.buffer = [];
    return candidates;
  }

  /** The call and the sender's own and the other seat; refuses where there is no call or the sender is an outsider. */
  function partiesOf(r: Request, outsider = 'Not a participant'): { call: Call; own: Seat; other: Seat } {
    const call = find(r);
    if (!call) throw new Refusal('No such call');
    if (r.user === call.offerer.user) return { call, own: call.offerer, other: call.answerer };
    if (r.user === call.answerer.user) return { call, own: call.answerer, other: call.offerer };
    throw new Refusal(outsider);
  }

  function onlySeat(r: Request, seat: Seat): void {
    if (seat.socket !== r.socket) throw new Refusal('Not the active device');
  }

  function toUser(call: Call, userId: string) {
    return call.namespace.to(`user:${userId}`);
  }

  // --- the eight events --------------------------------------------------------------------------------------------

  async function offer(r: Request): Promise<undefined> {
    const participants = await options.membership.participants(r.conversationId);
    const other = participants?.find((id) => id !== r.user);
    if (participants?.length !== 2 || !participants.includes(r.user) || other === undefined) {
      throw new Refusal('Not a participant');
    }
    const live = find(r);
    if (live?.phase.state === 'AWAITING_REJOIN') throw new Refusal('Call is recovering, rejoin instead');
    if (live) throw new Refusal('Call already in progress');
    if (!r.socket.connected) return; // it left while the database was asked: there is nobody to call back
    const call: Call = {
      conversationId: r.conversationId,
      namespace: r.namespace,
      offerer: { user: r.user, socket: undefined },
      answerer: { user: other, socket: undefined },
      phase: { state: 'OFFERING', rejoiner: undefined },
      buffer: [],
      changedAt: Date.now(),
    };
    take(call, call.offerer, r.socket);
    calls.set(keyOf(r.namespace.name, r.conversationId), call);
    toUser(call, other).emit('call-offer', relayed(r, 'offer'));
  }

  const handlers: Record<Exclude<CallEvent, 'call-offer'>, Handler> = {
    'call-answer'(r) {
      const phase = find(r)?.phase;
      const ringing = phase?.state === 'OFFERING' && !phase.rejoiner;
      const { call, own, other } = partiesOf(r, ringing ? 'Not allowed to answer' : undefined);
      if (!ringing) throw new Refusal('No offer to answer');
      if (own === call.offerer) throw new Refusal('Not allowed to answer');
      take(call, own, r.socket);
      enter(call, { state: 'CONNECTED' });
      other.socket?.emit('call-answer', relayed(r, 'answer'));
      toUser(call, own.user)
        .except(r.socket.id)
        .emit('call-ended', ended(call, 'answered-elsewhere', own.user));
      return takeBuffer(call);
    },

    'ice-candidate'(r) {
      if (!find(r)) return; // candidates trail naturally before the offer and after the end
      const { call, own, other } = partiesOf(r);
      const { phase } = call;
      if (phase.state === 'AWAITING_REJOIN') return;
      const ringing = phase.state === 'OFFERING' && !phase.rejoiner;
      if (!ringing) onlySeat(r, own);
      const waits = phase.state === 'OFFERING' && own === (phase.rejoiner ?? call.offerer);
      if (waits) buffer(call, r.body);
      else other.socket?.emit('ice-candidate', r.body);
    },

    'call-renegotiate-offer'(r) {
      const { call, own, other } = partiesOf(r);
      const { phase } = call;
      if (phase.state !== 'CONNECTED' && phase.state !== 'RENEGOTIATING') {
        throw new Refusal(`Cannot renegotiate from state ${phase.state}`);
      }
      onlySeat(r, own);
      if (phase.state === 'RENEGOTIATING') {
        throw new Refusal(
          phase.by === own ? `Cannot renegotiate from state ${phase.state}` : 'Renegotiation in progress, retry later',
        );
      }
      enter(call, { state: 'RENEGOTIATING', by: own });
      other.socket?.emit('call-renegotiate-offer', relayed(r, 'offer'));
    },

    'call-renegotiate-answer'(r) {
      const { call, own, other } = partiesOf(r);
      if (call.phase.state !== 'RENEGOTIATING') throw new Refusal('No renegotiation to answer');
      onlySeat(r, own);
      if (call.phase.by === own) throw new Refusal('No renegotiation to answer');
      enter(call, { state: 'CONNECTED' });
      other.socket?.emit('call-renegotiate-answer', relayed(r, 'answer'));
    },

    'call-rejoin-offer'(r) {
      const awaiting = find(r)?.phase.state === 'AWAITING_REJOIN';
      const { call, own, other } = partiesOf(r, awaiting ? 'Nothing to rejoin' : undefined);
      const { phase } = call;
      const allowed =
        phase.state === 'AWAITING_REJOIN'
          ? phase.dropped === own
          : phase.state === 'OFFERING'
            ? phase.rejoiner !== undefined && own.socket !== r.socket
            : own.socket !== r.socket;
      if (!allowed) throw new Refusal('Nothing to rejoin');
      take(call, own, r.socket);
      enter(call, { state: 'OFFERING', rejoiner: own });
      call.buffer = [];
      other.socket?.emit('call-rejoin-offer', relayed(r, 'offer'));
    },

    'call-rejoin-answer'(r) {
      const { call, own, other } = partiesOf(r);
      const rejoiner = call.phase.state === 'OFFERING' ? call.phase.rejoiner : undefined;
      if (!rejoiner || rejoiner === own) throw new Refusal('No rejoin to answer');
      onlySeat(r, own);
      enter(call, { state: 'CONNECTED' });
      other.socket?.emit('call-rejoin-answer', relayed(r, 'answer'));
      return takeBuffer(call);
    },

    'call-end'(r) {
      const { call, own } = partiesOf(r);
      const message = ended(call, 'hangup', own.user);
      end(call);
      const ringing = call.phase.state === 'OFFERING' && !call.phase.rejoiner;
      for (const { socket } of [call.offerer, call.answerer]) {
        if (socket !== r.socket) socket?.emit('call-ended', message);
      }
      if (ringing) toUser(call, call.answerer.user).except(r.socket.id).emit('call-ended', message);
    },
  };

  function dropped(socket: Socket): void {
    for (const call of [...(seatsOf.get(socket) ?? [])]) {
      const { phase, offerer, answerer } = call;
      const [own, other] = offerer.socket === socket ? [offerer, answerer] : [answerer, offerer];
      own.socket = undefined;
      if (phase.state === 'OFFERING' && !phase.rejoiner) {
        end(call);
        toUser(call, answerer.user).emit('call-ended', ended(call, 'offerer-left', offerer.user));
      } else if (!other.socket?.connected) {
        end(call);
      } else {
        enter(call, { state: 'AWAITING_REJOIN', dropped: own, since: Date.now() });
        other.socket.emit('call-peer-disconnected', { conversationId: call.conversationId, userId: own.user });
      }
    }
    seatsOf.delete(socket);
  }

  function reap(): void {
    const now = Date.now();
    for (const call of [...calls.values()]) {
      const { phase } = call;
      if (phase.state === 'AWAITING_REJOIN' && now - phase.since >= options.rejoinTimeoutMs) {
        end(call);
        const survivor = phase.dropped === call.offerer ? call.answerer : call.offerer;
        survivor.socket?.emit('call-ended', ended(call, 'rejoin-timeout', phase.dropped.user));
      } else if (now - call.changedAt >= options.callLimitMs) {
        end(call);
      }
    }
  }

  // --- the wire ----------------------------------------------------------------------------------------------------

  function receive(namespace: Namespace, socket: Socket, event: CallEvent, args: unknown[]): void {
    const last = args.at(-1);
    const ack = typeof last === 'function' ? (last as Ack) : undefined;
    const payload = ack && args.length === 1 ? undefined : args[0];
    const conversationId = conversationIdOf(payload);
    const listed = event === 'call-answer' || event === 'call-rejoin-answer';

    const refuse = (error: unknown): void => {
      const known = error instanceof Refusal;
      if (!known) options.log(`${event} failed: ${error instanceof Error ? error.message : String(error)}`);
      const message = known ? error.message : 'Internal error';
      socket.emit('error', conversationId === undefined ? { event, message } : { event, conversationId, message });
      ack?.(listed ? [] : { ok: false, error: message });
    };
    const succeed = (candidates: unknown[] | undefined): void => {
      if (ack) ack(candidates ?? { ok: true });
      else for (const candidate of candidates ?? []) socket.emit('ice-candidate', candidate);
    };

    const body = bodyOf(event, payload);
    if (conversationId === undefined || body instanceof Error) {
      refuse(body);
      return;
    }
    const request: Request = { socket, namespace, user: (socket.data.user as User).id, conversationId, body };

    const behind = waiting.get(socket)?.get(conversationId);
    if (event !== 'call-offer' && !behind) {
      try {
        succeed(handlers[event](request));
      } catch (error) {
        refuse(error);
      }
      return;
    }
    // An offer waits for the database; what its socket says about the same conversation meanwhile stays in order.
    const turn = (behind ?? Promise.resolve())
      .then(() => (event === 'call-offer' ? offer(request) : socket.connected ? handlers[event](request) : undefined))
      .then(succeed, refuse)
      .then(() => {
        if (queue.get(conversationId) === turn) queue.delete(conversationId);
      });
    const queue = waiting.get(socket) ?? new Map<string, Promise<void>>();
    waiting.set(socket, queue.set(conversationId, turn));
  }

  const reaper = setInterval(reap, options.reapIntervalMs);
  reaper.unref();

  return {
    attach(namespace) {
      namespace.on('connection', (socket) => {
        for (const event of Object.keys(FIELD) as CallEvent[]) {
          socket.on(event, (...args: unknown[]) => receive(namespace, socket, event, args));
        }
        socket.on('disconnect', () => dropped(socket));
      });
    },
    state: (namespace, conversationId) => calls.get(keyOf(namespace, conversationId))?.phase.state,
    get size() {
      return calls.size;
    },
    stop: () => clearInterval(reaper),
  };
}

function relayed(r: Request, field: 'offer' | 'answer'): object {
  return { conversationId: r.conversationId, [field]: r.body, fromUserId: r.user };
}

function isPayload(payload: unknown): payload is Record<string, unknown> {
  return typeof payload === 'object' && payload !== null && !Array.isArray(payload) && !Buffer.isBuffer(payload);
}

function conversationIdOf(payload: unknown): string | undefined {
  const id = isPayload(payload) ? payload.conversationId : undefined;
  return typeof id === 'string' && id !== '' && id.length <= MAX_ID ? id : undefined;
}

/** Fails here, before it changes anything, and not when it is relayed. */
function relayable(body: unknown): unknown {
  const nested = (value: unknown) => typeof value === 'object' && value !== null && !Buffer.isBuffer(value);
  let level = [body].filter(nested);
  for (let depth = 1; level.length > 0; depth++) {
    if (depth > MAX_DEPTH) return new Error(`nested over ${MAX_DEPTH} levels`);
    level = level.flatMap((one) => Object.values(one as object).filter(nested));
  }
  return body;
}

/** What the event carries, or why it can't be served: its payload is malformed, or can't be relayed. */
function bodyOf(event: CallEvent, payload: unknown): unknown {
  if (!isPayload(payload)) return new Refusal(`Malformed ${event}: payload must be an object`);
  if (conversationIdOf(payload) === undefined) {
    const rule = `conversationId must be a non-empty string of at most ${MAX_ID} characters`;
    return new Refusal(`Malformed ${event}: ${rule}`);
  }
  const field = FIELD[event];
  const body = field && payload[field];
  if (field && (body === undefined || body === null)) return new Refusal(`Malformed ${event}: ${field} is missing`);
  return relayable(body);
}
