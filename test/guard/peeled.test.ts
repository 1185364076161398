// The guard over peeled relays: what breaks in them takes them back, and nothing else. Unit tests: src/control/guard.test.ts.
import { afterEach, expect, it, vi } from 'vitest';
import type { StatusBody } from '../../src/admin/api.js';
import type * as Steps from '../../src/call/step.js';
import { type Client, connect, type Stack, startStack, until } from '../harness.js';

const broken = new Set<string>();
vi.mock('../../src/call/step.js', async (original) => {
  const { step } = await original<typeof Steps>();
  const failing: typeof Steps.step = (session, event, now) => {
    if (broken.has(event.type)) throw new Error('the step is broken');
    return step(session, event, now);
  };
  return { step: failing };
});

let on: Stack;
let clients: Client[] = [];
afterEach(async () => {
  broken.clear();
  for (const client of clients.splice(0)) client.close();
  await on.close();
});

it('a fault in candidates takes candidates back; the call goes on at the legacy, and so do new ones', async () => {
  const limits = 'guard: { window: 60s, min-samples: 10, max-p99: 10s }';
  on = await startStack({
    routes: `namespaces:
  /:
    call-lifecycle: { mode: canary, percent: 0, users: [nobody], ${limits} }
    ice-candidate: { mode: new, ${limits} }
    call-renegotiation: { mode: new, ${limits} }
`,
  });
  const { proxy } = on;
  const call = async (name: string) => {
    const [a, b] = await Promise.all([connect(proxy.url, `${name}-a`), connect(proxy.url, `${name}-b`)]);
    clients = [...clients, a, b];
    const conversationId = `dm:${name}-a:${name}-b`;
    expect(await a.ask('call-offer', { conversationId, offer: 'o' })).toEqual({ ok: true });
    await b.next('call-offer');
    await b.ask('call-answer', { conversationId, answer: 'a' });
    await a.next('call-answer');
    return { a, b, conversationId };
  };
  const { a, b, conversationId } = await call('peeled');
  a.socket.emit('ice-candidate', { conversationId, iceCandidate: 'well' });
  expect(await b.next('ice-candidate')).toBe('well');
  expect(await proxy.metric('sigfig_events_decided_total', { event: 'ice-candidate', because: 'peeled' })).toBe(1);

  // Each of several users' calls meets it once; what becomes of their candidates is tested with peeled relays.
  const others = [];
  for (let i = 0; i < 9; i++) others.push(await call(`other${i}`));
  broken.add('ice-candidate');
  for (const other of others) {
    expect(
      await other.a.ask('ice-candidate', { conversationId: other.conversationId, iceCandidate: 'c' }),
    ).toBeDefined();
  }
  const guard = async () => ((await (await fetch(`${proxy.adminUrl}/api/status`)).json()) as StatusBody).guard;
  await until(async () => (await guard()).some(({ state }) => state === 'tripped'), 'the guard has tripped');
  expect((await guard()).map(({ group, state }) => [group, state])).toEqual([
    ['call-lifecycle', 'inconclusive'],
    ['ice-candidate', 'tripped'],
    ['call-renegotiation', 'inconclusive'],
  ]);
  expect((await guard())[1]?.reason).toMatch(/^ice-candidate: 9 of 10 \(90 %, limit 1 %\) ended in an internal error/);

  // The live call keeps its path; its renegotiation is served, and the next call has candidates at the legacy.
  expect(await a.ask('call-renegotiate-offer', { conversationId, offer: 'o2' })).toEqual({ ok: true });
  const next = await call('next');
  next.a.socket.emit('ice-candidate', { conversationId: next.conversationId, iceCandidate: 'by the legacy' });
  expect(await next.b.next('ice-candidate')).toBe('by the legacy');
});
