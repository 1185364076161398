// The admin API over real calls of unmodified clients: what it shows, what a change says it would do, and what it ends.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type {
  CallBody,
  CallsBody,
  ChangedBody,
  ErrorBody,
  LiveBody,
  PlanBody,
  StatusBody,
} from '../../src/admin/api.js';
import { misfits } from '../../src/admin/described.fixture.js';
import { type Client, connect, type Stack, startStack, until } from '../harness.js';

let stack: Stack;
let people = 0;
beforeAll(async () => {
  stack = await startStack();
});
afterAll(() => stack.close());

/** Every answer is held to its description. */
async function ask<Body>(path: string, body?: object): Promise<{ readonly status: number; readonly body: Body }> {
  const response = await fetch(stack.proxy.adminUrl + path, {
    ...(body ? { method: 'POST', body: JSON.stringify(body) } : {}),
    headers: { 'content-type': 'application/json' },
  });
  const told = (await response.json()) as Body;
  const at = path.replace(/\?.*/, '').replace(/^\/api\/calls\/[^/]+/, '/api/calls/{id}');
  expect(misfits(at, body ? 'POST' : 'GET', response.status, told), path).toEqual([]);
  return { status: response.status, body: told };
}
const set = (mode: string, more: object = {}) =>
  ask<ChangedBody>('/api/routes/set', { target: 'calls', mode, reason: 'a test', ...more });

/** Two users in a call that was answered. */
async function inCall(): Promise<{ a: Client; b: Client; conversationId: string }> {
  people++;
  const [a, b] = await Promise.all([`anna${people}`, `bert${people}`].map((user) => connect(stack.proxy.url, user)));
  const conversationId = `dm:${a!.user}:${b!.user}`;
  expect(await a!.ask('call-offer', { conversationId, offer: { sdp: 'SECRET-OFFER' } })).toEqual({ ok: true });
  await b!.next('call-offer');
  await b!.ask('call-answer', { conversationId, answer: { sdp: 'SECRET-ANSWER' } });
  await a!.next('call-answer');
  return { a: a!, b: b!, conversationId };
}
/** Ends a call that is still on, and its browsers go. */
async function leave(...calls: { a: Client; b: Client; conversationId: string }[]): Promise<void> {
  for (const { a, b, conversationId } of calls) {
    await a.ask('call-end', { conversationId });
    for (const client of [a, b]) client.close();
  }
}
const found = async (search: string) => (await ask<CallsBody>(`/api/calls?search=${search}`)).body.calls;

describe('calls of either path', () => {
  it('are listed with their path and why, shown with their states, and never with what was said', async () => {
    await set('legacy');
    const old = await inCall();
    await set('new');
    const young = await inCall();
    expect(await found(old.conversationId)).toMatchObject([
      { path: 'legacy', state: 'CONNECTED', offerer: old.a.user },
    ]);
    const [call] = await found(young.conversationId);
    expect(call).toMatchObject({ path: 'new', because: 'route', state: 'CONNECTED', answerer: young.b.user });
    const shown = await ask<CallBody>(`/api/calls/${call!.id}`);
    const states = shown.body.timeline.map(({ from, to }) => `${from} → ${to}`);
    expect(states.slice(-2)).toEqual(['IDLE → OFFERING', 'OFFERING → CONNECTED']);
    for (const path of [
      '/api/calls',
      `/api/calls/${call!.id}`,
      '/api/live',
      '/api/status',
      '/api/routes',
      '/api/routes/history',
    ]) {
      expect(JSON.stringify((await ask(path)).body)).not.toContain('SECRET');
    }
    await leave(old, young);
  });

  it('that the new path owns can be ended; both sides are told', async () => {
    await set('new');
    const { a, b, conversationId } = await inCall();
    const [call] = await found(conversationId);
    const ended = await ask(`/api/calls/${call!.id}/end`, { reason: 'stuck' });
    expect(ended).toEqual({ status: 200, body: { id: call!.id, ended: true } });
    for (const client of [a, b])
      expect(await client.next('call-ended')).toMatchObject({ conversationId, reason: 'operator' });
    expect((await ask<CallBody>(`/api/calls/${call!.id}`)).body).toMatchObject({ call: null });
    expect((await ask(`/api/calls/${call!.id}/end`, {})).status).toBe(404);
    for (const client of [a, b]) client.close();
  });

  it('that the legacy owns can not', async () => {
    await set('legacy');
    const { a, b, conversationId } = await inCall();
    const [call] = await found(conversationId);
    const refused = await ask<ErrorBody>(`/api/calls/${call!.id}/end`, {});
    expect(refused).toMatchObject({ status: 409, body: { error: 'legacy-call' } });
    await leave({ a, b, conversationId });
  });
});

describe('a dry run and its change', () => {
  it('count whom they concern, and the red switch ends what it said it would', async () => {
    await set('legacy');
    await until(async () => (await ask<CallsBody>('/api/calls')).body.total === 0, 'nobody is in a call');
    await until(async () => (await ask<LiveBody>('/api/live')).body.connections === 0, 'nobody is connected');
    const old = await inCall();
    const dry = await set('new', { dryRun: true });
    expect(dry.body).toMatchObject({ connectedUsers: 2, liveCalls: { new: 0, legacy: 1 } } satisfies Partial<PlanBody>);
    expect((dry.body as unknown as PlanBody).lines).toContain('1 live call stays on legacy until it ends');
    const made = await set('new');
    expect(made.body).toMatchObject({ changed: true, confirmed: { instances: 1, of: 1 }, unwritten: null });
    const young = await inCall();
    const switched = await ask<ChangedBody>('/api/routes/legacy', { endCalls: true, reason: 'all back' });
    expect(switched.body).toMatchObject({ endedCalls: 1, plan: { endedCalls: 1, connectedUsers: 4 } });
    for (const client of [young.a, young.b])
      expect(await client.next('call-ended')).toMatchObject({ reason: 'operator' });
    // The legacy's call goes on.
    expect(await old.a.ask('call-end', { conversationId: old.conversationId })).toEqual({ ok: true });
    for (const { a, b } of [old, young]) for (const client of [a, b]) client.close();
  });
});

describe('live figures', () => {
  it('count what happens on each path', async () => {
    await set('new');
    const { a, b, conversationId } = await inCall();
    const of = async (event: string) =>
      (await ask<LiveBody>('/api/live')).body.events.find((figures) => figures.event === event)!;
    await until(async () => (await of('call-offer')).rate.new > 0, 'the offer counts');
    expect(await of('call-offer')).toMatchObject({ route: { '/': { mode: 'new', percent: null } } });
    expect((await of('call-answer')).p50Ms).toBeGreaterThan(0);
    const before = (await of('call-renegotiate-answer')).refusals;
    a.socket.emit('call-renegotiate-answer', { conversationId, answer: 'nobody asked' });
    await until(async () => (await of('call-renegotiate-answer')).refusals > before, 'the refusal counts');
    const { body } = await ask<StatusBody>('/api/status');
    expect(body).toMatchObject({
      ready: true,
      legacy: [{ reachable: true }],
      instances: [{ self: true, draining: false }],
    });
    await leave({ a, b, conversationId });
  });
});
