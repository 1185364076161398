// What one instance tells another about a call: how it stands now, and what sockets over there are to hear. Written here, and
// checked here where it comes in. Knows nothing of how it travels, or of what a call's events mean.
import type { Address, ConnectionNumber, ConversationId, Namespace, SocketId, SocketRef, UserId } from '../base/ids.js';
import { type CallKey, type Role, type Session, serverEvents } from '../call/session.js';
import { decodeArgs, encodeEvent, parsePacket } from '../protocol/socketio.js';

/** One event for sockets of that instance. `user`: for whichever of them this user has, where they could not be asked for. */
export interface Emit {
  readonly to: readonly SocketRef[] | { readonly user: UserId; readonly except: readonly SocketRef[] };
  readonly event: string;
  readonly arg: unknown;
  /** Whose seat that socket has; absent where it is meant whether or not it has one. */
  readonly seat?: Role | undefined;
}

export interface Told extends CallKey {
  readonly callId: string;
  readonly version: number;
  /** The call has changed: as it is now, null where it is over, `ask` where that is not sent along. Absent: it has not changed. */
  readonly session?: Session | null | 'ask';
  /** With `ask`: its `broken`. */
  readonly broken?: number;
  readonly emits: readonly Emit[];
  /**
   * `unreadable`: nobody can read its session any more, its parties are to be told. `rings-elsewhere`: a call of the legacy's, which
   * rings its callee on the instance that says so.
   */
  readonly about?: 'unreadable' | 'rings-elsewhere';
}

/** What is not a call's event is not shown to a browser. */
const eventNames: ReadonlySet<string> = new Set(serverEvents);

/** JSON, whatever browsers sent. */
export const write = ({ emits, ...told }: Told): unknown => ({
  ...told,
  emits: emits.map(({ to, event, arg, seat }) => ({
    ...('user' in to
      ? { user: to.user, except: to.except }
      : { sockets: to.map(({ id, connection }) => [id, connection]) }),
    event,
    ...(seat ? { seat } : {}),
    ...packed(arg),
  })),
});

/** Null where it is none of ours. `at`: this instance, whose sockets are meant. */
export function read(body: unknown, at: Address): Told | null {
  if (!isRecord(body)) return null;
  const { ns, conversationId, callId, version, session, broken, emits, about } = body;
  if (!isText(ns) || !isText(conversationId) || !isText(callId) || !Number.isSafeInteger(version)) return null;
  if (broken !== undefined && !Number.isSafeInteger(broken)) return null;
  if (about !== undefined && about !== 'unreadable' && about !== 'rings-elsewhere') return null;
  if (!Array.isArray(emits) || (session !== undefined && session !== 'ask' && session !== null && !isRecord(session))) {
    return null;
  }
  const key = { ns: ns as Namespace, conversationId: conversationId as ConversationId };
  const all = emits.map((emit) => readEmit(emit, key.ns, at));
  if (all.includes(null)) return null;
  return {
    ...key,
    callId,
    version: version as number,
    // Whoever keeps it checks it.
    ...(session === undefined ? {} : { session: session as Session | null | 'ask' }),
    ...(broken === undefined ? {} : { broken: broken as number }),
    emits: all as Emit[],
    ...(about ? { about } : {}),
  };
}

function readEmit(emit: unknown, ns: Namespace, at: Address): Emit | null {
  if (!isRecord(emit) || !isText(emit.event) || !eventNames.has(emit.event)) return null;
  const arg = unpacked(emit);
  if (arg === undefined) return null;
  const { event, user, sockets, except } = emit;
  const seat = emit.seat === 'offerer' || emit.seat === 'answerer' ? emit.seat : undefined;
  if (isText(user) && Array.isArray(except) && except.every(isRef)) {
    return { to: { user: user as UserId, except: except as SocketRef[] }, event, arg: arg.value };
  }
  if (!Array.isArray(sockets) || !sockets.every(isSocket)) return null;
  const to = sockets.map(([id, connection]) => ({
    ns,
    id: id as SocketId,
    connection: connection as ConnectionNumber,
    at,
  }));
  return { to, event, arg: arg.value, seat };
}

/** What holds bytes is written as a packet with its attachments. */
function packed(arg: unknown): Readonly<Record<string, unknown>> {
  if (!holdsBytes(arg)) return { arg };
  const { text, attachments } = encodeEvent('/', 'arg', [arg]);
  return { text, attachments: attachments.map((bytes) => bytes.toString('base64')) };
}

function unpacked({ arg, text, attachments }: Record<string, unknown>): { readonly value: unknown } | undefined {
  if (text === undefined) return arg === undefined ? undefined : { value: arg };
  if (typeof text !== 'string' || !Array.isArray(attachments)) return undefined;
  const packet = parsePacket(
    text,
    attachments.map((bytes) => Buffer.from(String(bytes), 'base64')),
  );
  const args = packet && decodeArgs(packet);
  return args ? { value: args[0] } : undefined;
}

/** What browsers sent is nested 64 levels at most (`isTooDeep`). */
const holdsBytes = (value: unknown): boolean =>
  typeof value === 'object' &&
  value !== null &&
  (ArrayBuffer.isView(value) || value instanceof ArrayBuffer || Object.values(value).some(holdsBytes));

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
const isText = (value: unknown): value is string => typeof value === 'string' && value !== '';
const isSocket = (value: unknown): value is [string, number] =>
  Array.isArray(value) && isText(value[0]) && Number.isSafeInteger(value[1]);
const isRef = (value: unknown): boolean =>
  isRecord(value) && isText(value.id) && Number.isSafeInteger(value.connection);
