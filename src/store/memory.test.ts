// The memory driver against the contract, and what only it promises: it always knows, at once.
import { expect, it } from 'vitest';
import type { ConnectionNumber, ConversationId, Namespace, SocketId, UserId } from '../base/ids.js';
import type { Session } from '../call/session.js';
import { memorySessionStore } from './memory.js';
import { describeSessionStore, dueAfterAMinute } from './store.contract.js';

describeSessionStore('memory', () => memorySessionStore(dueAfterAMinute));

const session = (i: number): Session =>
  Object.freeze<Session>({
    ns: '/' as Namespace,
    conversationId: `c-${i}` as ConversationId,
    callId: `call-${i}`,
    version: 1,
    state: 'OFFERING',
    createdAt: 1,
    since: 1,
    users: { offerer: `a-${i}` as UserId, answerer: `b-${i}` as UserId },
    seats: {
      offerer: { ns: '/' as Namespace, id: `s-${i}` as SocketId, connection: i as ConnectionNumber },
      answerer: null,
    },
    lost: {},
    offeredBy: 'offerer',
    rejoining: false,
    candidates: [],
    keptOffer: null,
  });

it('knows a change before its promise settles, and hands out the very object it was given', () => {
  const store = memorySessionStore();
  const before = session(1);
  expect(store.peek(before)).toBeNull();
  void store.create(before);
  expect(store.peek(before)).toBe(before);
  const after = { ...before, version: 2 };
  void store.replace(before, after);
  expect(store.peek(before)).toBe(after);
  void store.delete(after);
  expect(store.peek(before)).toBeNull();
});

it('finds by socket and by user without walking the other calls', async () => {
  const store = memorySessionStore();
  for (let i = 0; i < 50_000; i++) void store.create(session(i));
  const started = performance.now();
  for (let i = 0; i < 1_000; i++) {
    await store.bySocket(session(i).seats.offerer);
    await store.knownOf('/', `b-${i}`);
    await store.count();
  }
  // A walk of 50,000 calls takes over 1 ms: three thousand of them, several seconds.
  expect(performance.now() - started).toBeLessThan(1_500);
});
