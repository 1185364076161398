// A real proxy under traffic after which it shows what it has to show: calls on either path, refusals, a canary that falls
// back, a trip of the guard, a broken routes file, a legacy that goes away. Knows nothing of dashboards.
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  type Client,
  callsNew,
  connect,
  login,
  type Stack,
  type Proxy as Started,
  startProxy,
  startStack,
  until,
} from '../harness.js';
import { startRedis } from '../redis/server.js';

const routes = `namespaces:
  /: { calls: { mode: new, guard: { min-samples: 20, max-refusals-percent: 10, max-p99: 10s } } }
  /calls: { call-lifecycle: { mode: canary, percent: 100 } }
`;

/** The metrics of that proxy at the end, as Prometheus would scrape them. */
export async function scrapeAfterTraffic(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'sigfig-traffic-'));
  const file = join(folder, 'routes.yaml');
  await writeFile(file, routes);
  // Nobody grants tickets to the proxy: calls on the new path need one that the browser brought.
  const flags = { routes: file, 'ticket-url': '/nowhere', 'tickets-url': 'none' };
  const stack = await startStack({ flags });
  try {
    await play(stack, file);
    return await (await fetch(stack.proxy.metricsUrl)).text();
  } finally {
    await stack.close();
    await rm(folder, { recursive: true, force: true });
  }
}

/** The metrics of one of two instances on one Redis, after a call over both and a drain that is taken back. */
export async function scrapeOfInstances(): Promise<string> {
  const stack = await startStack();
  const redis = await startRedis();
  const proxies: Started[] = [];
  try {
    for (const instance of ['a', 'b']) {
      proxies.push(await startProxy(stack.legacy.url, { routes: callsNew, flags: { redis: [redis.url], instance } }));
    }
    const [one, other] = proxies as [Started, Started];
    await until(async () => (await other.metric('sigfig_instances')) === 2, 'both know of one another');
    const [a, b] = await Promise.all([connect(one.url, 'across-a'), connect(other.url, 'across-b')]);
    const told = async () => ((await redis.ask('KEYS', 'sigfig:presence:*')) as string[]).length;
    await until(async () => (await told()) === 2, 'both are told of');
    const conversationId = 'dm:across-a:across-b';
    await a.ask('call-offer', { conversationId, offer: 'o' });
    await b.next('call-offer');
    await b.ask('call-answer', { conversationId, answer: 'a' });
    await a.next('call-answer');
    await b.ask('call-end', { conversationId });
    await a.next('call-ended');
    await until(async () => (await one.metric('sigfig_messages_total')) > 1, 'messages went both ways');
    await redis.stop();
    await until(async () => (await one.metric('sigfig_redis_lost_total')) > 0, 'Redis is lost');
    for (const client of [a, b]) client.close();
    return await (await fetch(one.metricsUrl)).text();
  } finally {
    await redis.close();
    for (const proxy of proxies) await proxy.close();
    await stack.close();
  }
}

async function play({ proxy, legacy }: Stack, file: string): Promise<void> {
  await wholeCall(proxy.url, legacy.url, 'both', {});
  await wholeCall(proxy.url, legacy.url, 'polling', { transports: ['polling'] });
  // Without a ticket the canary falls back.
  await wholeCall(proxy.url, null, 'falls-back', { ns: '/calls' });

  const waiting = await begin(proxy.url, legacy.url, 'waits', {});
  waiting.a.close();
  await waiting.b.next('call-peer-disconnected');
  await waiting.b.ask('ice-candidate', { conversationId: waiting.conversationId, iceCandidate: 'for nobody' });
  await waiting.b.ask('ice-candidate', { conversationId: 'dm:of:nobody', iceCandidate: 'early' });

  const [c, d] = await pair(proxy.url, 'refused', {});
  let deep: unknown = 'bottom';
  for (let i = 0; i < 2_000; i++) deep = [deep];
  // Of two users about two conversations: what meets one only trips nothing.
  for (const offer of [deep, ...Array.from({ length: 12 }, (_, i) => i)]) {
    await c.ask('call-offer', { conversationId: 'dm:refused-a:refused-b', offer });
    await d.ask('call-offer', { conversationId: 'dm:refused-b:refused-c', offer });
  }
  await until(async () => (await proxy.metric('sigfig_guard_tripped_total')) > 0, 'the guard has tripped');
  for (const client of [waiting.b, c, d]) client.close();

  await writeFile(file, 'namespaces: { /: { calls: sideways } }\n');
  await until(
    async () => (await proxy.metric('sigfig_routes_loads_total', { outcome: 'rejected' })) > 0,
    'it is refused',
  );
  await fetch(`${proxy.adminUrl}/api/routes/nowhere`, { method: 'POST' });
  await legacy.close();
  await until(async () => (await proxy.metric('sigfig_legacy_lost_total')) > 0, 'the legacy is lost');
}

interface Options {
  readonly ns?: string;
  readonly transports?: string[];
}

const pair = (base: string, name: string, options: Options): Promise<[Client, Client]> =>
  Promise.all([connect(base, `${name}-a`, options), connect(base, `${name}-b`, options)]);

/** A call up to its answer; where `legacy` is given the offer brings a ticket from there. */
async function begin(base: string, legacy: string | null, name: string, options: Options) {
  const [a, b] = await pair(base, name, options);
  const conversationId = `dm:${name}-a:${name}-b`;
  const ticket = legacy === null ? {} : { ticket: await ticketOf(legacy, a.user, conversationId) };
  await a.ask('call-offer', { conversationId, offer: 'o', ...ticket });
  await b.next('call-offer');
  await b.ask('call-answer', { conversationId, answer: 'a' });
  await a.next('call-answer');
  return { a, b, conversationId };
}

async function ticketOf(legacy: string, user: string, conversationId: string): Promise<string> {
  const url = `${legacy}/api/calls/ticket?conversationId=${encodeURIComponent(conversationId)}`;
  const answer = await fetch(url, { headers: { authorization: `Bearer ${await login(legacy, user)}` } });
  return ((await answer.json()) as { ticket: string }).ticket;
}

/** Two calls with candidates, renegotiation and end; for the second one the participants are known. */
async function wholeCall(base: string, legacy: string | null, name: string, options: Options): Promise<void> {
  const { a, b, conversationId } = await begin(base, legacy, name, options);
  a.socket.emit('ice-candidate', { conversationId, iceCandidate: 'c' });
  await b.next('ice-candidate');
  await a.ask('call-renegotiate-offer', { conversationId, offer: 'o2' });
  await b.next('call-renegotiate-offer');
  await b.ask('call-renegotiate-answer', { conversationId, answer: 'a2' });
  await a.next('call-renegotiate-answer');
  await a.ask('call-end', { conversationId });
  await b.next('call-ended');
  await a.ask('call-offer', { conversationId, offer: 'o3' });
  await a.ask('call-end', { conversationId });
  a.close();
  b.close();
}
