// A session as it stands in Redis, and back. Redis is a door: what another version, another instance or an operator wrote there is checked
// before anybody trusts it. Knows no key and no command.
import type { ConversationId, Namespace, SocketRef } from '../base/ids.js';
import type { DropCause } from '../base/service.js';
import { type CallKey, type Role, type ServerEvent, type Session, type State, serverEvents } from '../call/session.js';
import { readValue, writeValue } from './bytes.js';
import type { Kept } from './store.js';

/** Grows where an older version could not understand what a newer one writes. */
export const FORMAT = '1';

export const writeSession = (session: Session): string => writeValue(session);

/** The session, or one line on why it can't be understood; never what stands there. */
export function readSession(key: CallKey, format: string, text: string): Session | string {
  if (format !== FORMAT) {
    if (/^\d{1,6}$/.test(format))
      return `written in format ${format} by another version of sigfig; this one reads ${FORMAT}`;
    return 'no session of sigfig';
  }
  const value = readValue(text);
  if (!isRecord(value)) return 'not whole: cut short or changed by hand';
  const wrong = fault(value);
  if (wrong !== undefined) return `not whole: its ${wrong} is missing or of another kind`;
  const session = value as unknown as Session;
  if (session.ns !== key.ns || session.conversationId !== key.conversationId)
    return 'the session of another conversation';
  return session;
}

/** As it is a member of an index: with the call, so that what is removed is never a later call's. */
export const writeMember = ({ ns, conversationId }: CallKey, callId: string): string =>
  JSON.stringify([ns, conversationId, callId]);

export function readMember(text: unknown): { readonly key: CallKey; readonly callId: string } | undefined {
  const value = typeof text === 'string' ? parsed(text) : undefined;
  if (!Array.isArray(value) || value.length !== 3 || !value.every(isText)) return undefined;
  const [ns, conversationId, callId] = value as [Namespace, ConversationId, string];
  return { key: { ns, conversationId }, callId };
}

export const writeKept = ({ event, arg }: Kept): string => writeValue([event, arg]);

export function readKept(text: string): Kept | undefined {
  const value = readValue(text);
  if (!Array.isArray(value) || value.length !== 2 || !EVENTS.has(value[0])) return undefined;
  return { event: value[0] as ServerEvent, arg: value[1] as unknown };
}

/** Seats by the letters that scripts know them by. */
export const LETTERS: Readonly<Record<Role, string>> = { offerer: 'o', answerer: 'a' };
export const ROLES: readonly Role[] = ['offerer', 'answerer'];

const EVENTS: ReadonlySet<unknown> = new Set(serverEvents);
const STATES: ReadonlySet<unknown> = new Set<State>(['OFFERING', 'CONNECTED', 'RENEGOTIATING', 'AWAITING_REJOIN']);
const CAUSES: ReadonlySet<unknown> = new Set<DropCause>(['browser', 'legacy', 'drain', 'instance']);

type Check = (value: unknown) => boolean;
const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
const isText = (value: unknown): value is string => typeof value === 'string' && value !== '';
const isCount: Check = (value) => typeof value === 'number' && Number.isFinite(value) && value >= 0;
const isNumber: Check = (value) => Number.isSafeInteger(value);
const isFlag: Check = (value) => typeof value === 'boolean';
const isRole: Check = (value) => value === 'offerer' || value === 'answerer';
const perRole =
  (check: Check): Check =>
  (value) =>
    isRecord(value) && Object.entries(value).every(([role, one]) => isRole(role) && check(one));
const orAbsent =
  (check: Check): Check =>
  (value) =>
    value === undefined || check(value);

/** Also of a socket that comes in a message. */
export const isSocket = (value: unknown): value is SocketRef =>
  isRecord(value) && isText(value.ns) && isText(value.id) && isNumber(value.connection) && orAbsent(isText)(value.at);

const FIELDS: Readonly<Record<keyof Session, Check>> = {
  ns: isText,
  conversationId: isText,
  callId: isText,
  version: (value) => Number.isSafeInteger(value) && (value as number) > 0,
  state: (value) => STATES.has(value),
  createdAt: isCount,
  since: isCount,
  broken: orAbsent(isNumber),
  users: (value) => isRecord(value) && isText(value.offerer) && isText(value.answerer),
  seats: (value) => isRecord(value) && isSocket(value.offerer) && (value.answerer === null || isSocket(value.answerer)),
  lost: perRole((value) => CAUSES.has(value)),
  held: orAbsent(perRole(isCount)),
  beside: orAbsent(perRole((value) => Array.isArray(value) && value.every(isSocket))),
  moved: orAbsent(perRole((value) => value === true)),
  waitsForBoth: orAbsent((value) => value === true),
  offeredBy: (value) => value === null || isRole(value),
  rejoining: isFlag,
  candidates: (value) => Array.isArray(value),
  candidateBytes: orAbsent(isCount),
  // Whatever a browser offered.
  keptOffer: () => true,
};

/** The first field that is not what it must be. */
const fault = (value: Record<string, unknown>): string | undefined =>
  Object.entries(FIELDS).find(([name, check]) => !check(value[name]))?.[0];

/** A session that came in a message of another instance; undefined where it is none. */
export const checkedSession = (value: unknown): Session | undefined =>
  isRecord(value) && fault(value) === undefined ? (value as unknown as Session) : undefined;

function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    // Not JSON is one of the answers.
    return undefined;
  }
}
