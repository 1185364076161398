// For tests: two users with two devices each and an outsider, a call in every situation, and a step shown as one line of text.
// Says nothing of what is right; the tables in `step.table.test.ts` and `step.drop.test.ts` do.
import type { ConnectionNumber, ConversationId, Namespace, SocketId, SocketRef, UserId } from '../base/ids.js';
import type { CallEvent, Effect, Session, Step, Target } from './session.js';

export const NOW = 1_000_000;
export const ENTERED = 900_000;
const ns = '/' as Namespace;

/** O and A are the users, X an outsider; O1 and A1 hold the seats, O2 and A2 are their other devices. */
export const socketOf = (name: string): SocketRef =>
  Object.freeze({ ns, id: name as SocketId, connection: name.charCodeAt(0) as ConnectionNumber });
export const userOf = (name: string): UserId => name.slice(0, 1) as UserId;
export const by = (name: string) => ({ user: userOf(name), socket: socketOf(name) });

export const baseSession: Session = {
  ns,
  conversationId: 'c' as ConversationId,
  callId: 'call-1',
  version: 7,
  state: 'CONNECTED',
  createdAt: 800_000,
  since: ENTERED,
  users: { offerer: userOf('O'), answerer: userOf('A') },
  seats: { offerer: socketOf('O1'), answerer: socketOf('A1') },
  lost: {},
  offeredBy: null,
  rejoining: false,
  candidates: [],
  keptOffer: null,
};

const buffered = ['b1', 'b2'];
const offering = { state: 'OFFERING', candidates: buffered } as const;
const rejoin = { ...offering, rejoining: true } as const;
const both = { state: 'AWAITING_REJOIN', waitsForBoth: true } as const;
const keptBy = { ...rejoin, waitsForBoth: true, keptOffer: 'KEPT' } as const;

/** `-O` and `-A`: offered by, or lost is, the offerer or the answerer. `+O`, `+A`: that user has come back on its seat. */
export const situations: Readonly<Record<string, Session | null>> = {
  IDLE: null,
  FIRST: {
    ...baseSession,
    ...offering,
    offeredBy: 'offerer',
    seats: { offerer: socketOf('O1'), answerer: null },
  },
  CONNECTED: baseSession,
  'RENEG-O': { ...baseSession, state: 'RENEGOTIATING', offeredBy: 'offerer' },
  'RENEG-A': { ...baseSession, state: 'RENEGOTIATING', offeredBy: 'answerer' },
  'AWAIT-O': { ...baseSession, state: 'AWAITING_REJOIN', lost: { offerer: 'browser' } },
  'AWAIT-A': { ...baseSession, state: 'AWAITING_REJOIN', lost: { answerer: 'browser' } },
  'AWAIT-Ol': { ...baseSession, state: 'AWAITING_REJOIN', lost: { offerer: 'legacy' } },
  'AWAIT-Al': { ...baseSession, state: 'AWAITING_REJOIN', lost: { answerer: 'drain' } },
  'REJOIN-O': { ...baseSession, ...rejoin, offeredBy: 'offerer' },
  'REJOIN-A': { ...baseSession, ...rejoin, offeredBy: 'answerer' },
  BOTH: { ...baseSession, ...both, lost: { offerer: 'legacy', answerer: 'legacy' } },
  'BOTH+O': { ...baseSession, ...both, lost: { answerer: 'legacy' } },
  'BOTH+A': { ...baseSession, ...both, lost: { offerer: 'legacy' } },
  'BOTH+OA': { ...baseSession, ...both },
  'KEPT-O': { ...baseSession, ...keptBy, offeredBy: 'offerer', lost: { answerer: 'legacy' } },
  'KEPT-O+A': { ...baseSession, ...keptBy, offeredBy: 'offerer' },
  'KEPT-A': { ...baseSession, ...keptBy, offeredBy: 'answerer', lost: { offerer: 'legacy' } },
  'KEPT-A+O': { ...baseSession, ...keptBy, offeredBy: 'answerer' },
};

/** An event of a browser's with short bodies: `sdp` for a description, `ice` for a candidate. */
export function eventOf(type: string, sender: string, ackRequested = true): CallEvent {
  const from = by(sender);
  switch (type) {
    case 'call-offer':
      return {
        type,
        by: from,
        conversationId: baseSession.conversationId,
        offer: 'sdp',
        participants: [userOf('A'), userOf('O')],
        callId: 'call-2',
        early: ['e1'],
      };
    case 'call-answer':
    case 'call-rejoin-answer':
      return { type, by: from, answer: 'sdp', ackRequested };
    case 'call-renegotiate-answer':
      return { type, by: from, answer: 'sdp' };
    case 'call-renegotiate-offer':
    case 'call-rejoin-offer':
      return { type, by: from, offer: 'sdp' };
    case 'ice-candidate':
      return { type, by: from, iceCandidate: 'ice' };
    case 'call-end':
    case 'arrived':
      return { type, by: from };
    default:
      throw new Error(`no such event: ${type}`);
  }
}

const target = (to: Target): string =>
  'socket' in to ? to.socket.id : `${to.user}*${to.except.map((s) => `-${s.id}`).join('')}`;

function shownEffect(effect: Effect): string {
  switch (effect.kind) {
    case 'emit':
      return `${effect.event} ${JSON.stringify(effect.arg)} > ${target(effect.to)}`;
    case 'ack':
      return `ack ${JSON.stringify(effect.arg)}`;
    case 'refuse':
      return `no: ${effect.refusal.message}`;
    case 'candidate-dropped':
      return `dropped ${effect.why}`;
  }
}

const fields = (s: Session, cause?: string): Record<string, string> => ({
  state: s.state,
  since: s.since === NOW ? 'now' : String(s.since),
  O: s.seats.offerer.id,
  A: s.seats.answerer?.id ?? '-',
  lost: `${(['offerer', 'answerer'] as const)
    .filter((role) => s.lost[role])
    .map((role) => `${role === 'offerer' ? 'O' : 'A'}:${s.lost[role] === cause ? 'cause' : s.lost[role]}`)
    .join(',')}`,
  both: s.waitsForBoth ? 'yes' : 'no',
  by: s.offeredBy === null ? '-' : s.offeredBy === 'offerer' ? 'O' : 'A',
  rejoining: s.rejoining ? 'yes' : 'no',
  buffer: s.candidates.join(','),
  kept: String(s.keptOffer ?? '-'),
  fixed: JSON.stringify([s.ns, s.conversationId, s.callId, s.createdAt, s.users]),
});

/**
 * `same`, `gone`, or what differs in the session (a new one whole), then the effects in order, all parted by ` | `. `cause` in
 * `lost` stands for the event's own cause.
 */
export function shown(before: Session | null, { session, effects }: Step, cause?: string): string {
  const change = (() => {
    if (session === before) return 'same';
    if (session === null) return 'gone';
    const old: Record<string, string> = before ? fields(before, cause) : {};
    const differs = Object.entries(fields(session, cause)).filter(([name, value]) => old[name] !== value);
    return differs.map(([name, value]) => `${name}=${value}`).join(' ') || 'changed, but nothing differs';
  })();
  return [change, ...effects.map(shownEffect)].join(' | ');
}

/** A text table: the first line names the columns, every other line a row; cells are parted by spaces, `//` opens a comment. */
export function table(text: string): { row: string; column: string; cell: string }[] {
  const lines = text
    .split('\n')
    .map((line) => line.replace(/\/\/.*/, '').trim())
    .filter((line) => line !== '');
  const columns = (lines[0] ?? '').split(/\s+/);
  return lines.slice(1).flatMap((line) => {
    const [row = '', ...cells] = line.split(/\s+/);
    if (cells.length !== columns.length) throw new Error(`${row}: ${cells.length} cells for ${columns.length} columns`);
    return cells.map((cell, i) => ({ row, column: columns[i] ?? '', cell }));
  });
}
