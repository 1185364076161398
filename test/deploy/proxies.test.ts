// nginx and HAProxy with the files of deploy/ in front of two sigfig processes: a polling session stays on its instance, so do its
// upgrade and several of one browser; a draining instance gets no new session and keeps those it has until it closes them; a dead one
// is left. Calls are served all the while, with the parties wherever the balancer put them.
import { execFile, spawnSync } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { hostname, tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { findProxy } from '../../scripts/proxies.mjs';
import { type Client, callsNew, connect, login, metric, until } from '../harness.js';
import { type Processes, processes } from '../processes.js';
import { type RedisServer, startRedis } from '../redis/server.js';
import { at, documentsOf } from './files.js';
import { type InFront, kinds, startInFront } from './in-front.js';

type Proxy = Awaited<ReturnType<Processes['proxy']>>;

let redis: RedisServer;
beforeAll(async () => {
  redis = await startRedis();
});
afterAll(() => redis?.close());

it('HAProxy takes its file without a warning', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'sigfig-haproxy-check-'));
  try {
    const here = { url: 'http://127.0.0.1:1', admin: 'http://127.0.0.1:2' };
    const args = await kinds.haproxy(folder, 3, [here, here]);
    const checked = spawnSync(findProxy('haproxy') ?? 'haproxy', ['-c', ...args], { encoding: 'utf8' });
    expect(checked.status, checked.stderr).toBe(0);
    expect(checked.stdout + checked.stderr).not.toMatch(/warning/i);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
});

describe.each(Object.keys(kinds) as (keyof typeof kinds)[])('%s', (kind) => {
  let bed: Processes;
  let legacy: { readonly url: string };
  let instances: [Proxy, Proxy];
  let front: InFront;
  let gone: Proxy | undefined;

  const start = (name: string, prefix: string, more: readonly string[] = []) =>
    bed.proxy(legacy.url, callsNew, [
      ...more,
      ...['--redis', redis.url, '--redis-prefix', prefix, '--instance', name],
      ...['--drain-delay', '2s', '--drain', '1s'],
    ]);

  beforeAll(async () => {
    bed = await processes();
    legacy = await bed.legacy();
    instances = await Promise.all([start('a', `front-${kind}`), start('b', `front-${kind}`)]);
    front = await startInFront(kind, instances);
  });
  afterAll(async () => {
    await front?.close();
    await bed?.close();
  });

  const open = ({ metrics }: Proxy) => metric(metrics, 'sigfig_connections');
  const opened = ({ metrics }: Proxy) => metric(metrics, 'sigfig_connections_opened_total');
  const upgraded = ({ metrics }: Proxy) => metric(metrics, 'sigfig_connections_upgraded_total');
  const both = async (of: (proxy: Proxy) => Promise<number>): Promise<[number, number]> => [
    await of(instances[0]),
    await of(instances[1]),
  ];
  const sum = async (of: (proxy: Proxy) => Promise<number>) => (await both(of)).reduce((x, y) => x + y);
  /** A browser that was on that instance before. HAProxy chooses by itself. */
  const from = (name: 'a' | 'b') => ({ extraHeaders: { cookie: `other=1; sigfig=${name}` } });
  const polling = { transports: ['polling'] };

  /** Until every instance can know that they are connected: presence is told in the background. */
  const seen = async (...clients: Client[]) => {
    for (const { user } of clients) {
      const key = `front-${kind}:presence:*${user}}`;
      await until(async () => ((await redis.ask('KEYS', key)) as string[]).length === 1, `${user} is known`);
    }
  };

  /** A whole call; every event is served here, so every acknowledgement comes from the instance that has the session. */
  async function call(a: Client, b: Client): Promise<void> {
    await seen(a, b);
    const conversationId = `dm:${a.user}:${b.user}`;
    expect(await a.ask('call-offer', { conversationId, offer: 'o' })).toEqual({ ok: true });
    await b.next('call-offer');
    expect(await b.ask('call-answer', { conversationId, answer: 'a' })).toEqual([]);
    await a.next('call-answer');
    for (let i = 0; i < 5; i++) {
      expect(await a.ask('ice-candidate', { conversationId, iceCandidate: `from a ${i}` })).toEqual({ ok: true });
      expect(await b.ask('ice-candidate', { conversationId, iceCandidate: `from b ${i}` })).toEqual({ ok: true });
      expect(await b.next('ice-candidate')).toBe(`from a ${i}`);
      expect(await a.next('ice-candidate')).toBe(`from b ${i}`);
    }
    expect(await b.ask('call-end', { conversationId })).toEqual({ ok: true });
    expect(await a.next('call-ended')).toMatchObject({ conversationId, reason: 'hangup' });
  }

  it('keeps polling sessions on the instance that answered their handshake, on both instances', async () => {
    const before = await both(opened);
    const clients = await Promise.all(
      Array.from({ length: 8 }, (_, i) =>
        connect(front.url, `poll-${kind}-${i}`, { ...polling, ...from(i % 2 ? 'b' : 'a') }),
      ),
    );
    const after = await both(opened);
    expect(after[0] - before[0] + after[1] - before[1]).toBe(8);
    expect(Math.min(after[0] - before[0], after[1] - before[1])).toBeGreaterThanOrEqual(2);
    const gone: string[] = [];
    for (const { socket, user } of clients) socket.on('disconnect', (why) => gone.push(`${user}: ${why}`));
    await Promise.all([0, 2, 4, 6].map((i) => call(clients[i]!, clients[i + 1]!)));
    expect(gone).toEqual([]);
    expect(await both(opened)).toEqual(after);
    for (const client of clients) client.close();
    await until(async () => (await sum(open)) === 0, 'they are gone');
  });

  it('leads the upgrade of a session to its instance, and WebSockets without polling to any', async () => {
    const before = await sum(upgraded);
    const clients = await Promise.all([
      connect(front.url, `up-${kind}-0`, from('a')),
      connect(front.url, `up-${kind}-1`, from('b')),
      connect(front.url, `up-${kind}-2`, { transports: ['websocket'], ...from('b') }),
    ]);
    await until(async () => (await sum(upgraded)) === before + 2, 'two are upgraded');
    const [a, b, c] = clients as [Client, Client, Client];
    await call(a, b);
    await call(b, c);
    for (const client of clients) client.close();
    await until(async () => (await sum(open)) === 0, 'they are gone');
  });

  it('carries plain HTTP, with bodies, and says whence it came', async () => {
    expect(await login(front.url, `plain-${kind}`)).toMatch(/^ey/);
    const body = 'x'.repeat(3_000_000);
    const token = await login(front.url, `plain-${kind}`);
    const answer = await fetch(`${front.url}/api/files`, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}`, 'content-type': 'text/plain' },
      body,
    });
    expect(answer.status).toBeLessThan(300);
    const { id } = (await answer.json()) as { id: string };
    const headers = { authorization: `Bearer ${token}` };
    expect(await (await fetch(`${front.url}/api/files/${id}`, { headers })).text()).toBe(body);
  });

  it('leads nothing new to an instance that drains, keeps what it has, and no call sees a planned move', async () => {
    // They keep cookies, as browsers do.
    const browser = { ...polling, withCredentials: true, reconnection: true, reconnectionDelay: 20 };
    const moved = await Promise.all(
      ['left', 'right'].map((name) => connect(front.url, `drain-${kind}-${name}`, browser)),
    );
    const [left, right] = moved as [Client, Client];
    await seen(left, right);
    const conversationId = `dm:${left.user}:${right.user}`;
    await left.ask('call-offer', { conversationId, offer: 'o' });
    await right.next('call-offer');
    await right.ask('call-answer', { conversationId, answer: 'a' });
    await left.next('call-answer');

    const [first, second] = instances;
    const [drained, other] = (await open(first)) > 0 ? [first, second] : [second, first];
    const ended = kind === 'nginx' ? stop(drained) : stopAsPod(drained);
    await until(async () => !(await ready(drained)), 'it drains');
    // What it had goes on for --drain-delay: known sessions are served.
    for (const client of moved) {
      expect(await client.ask('ice-candidate', { conversationId, iceCandidate: 'c' })).toEqual({ ok: true });
    }
    // Whoever comes now ends up on the other one, as does all that it sends, wherever the address or a cookie leads.
    await until(() => refusesNew(drained), 'it takes nothing new');
    const late = await connect(front.url, `drain-${kind}-late`, browser);
    expect(await late.ask('call-end', { conversationId: 'dm:nobody:here' })).toEqual({
      ok: false,
      error: 'No such call',
    });
    expect(await ended).toBe(0);
    await until(() => moved.every(({ socket }) => socket.connected), 'they are back');
    await until(async () => (await open(other)) === 3, 'all are on the other instance');
    for (const client of moved) {
      expect(await client.ask('ice-candidate', { conversationId, iceCandidate: 'after' })).toEqual({ ok: true });
    }
    expect(await left.ask('call-end', { conversationId })).toEqual({ ok: true });
    await right.next('call-ended');
    for (const { got } of moved) expect(got.map(({ event }) => event)).not.toContain('call-peer-disconnected');
    for (const client of [...moved, late]) client.close();
    gone = drained;
  }, 60_000);

  it('takes an instance back once it is replaced, and leaves one that is killed', async () => {
    const { url, admin } = gone as Proxy;
    const name = gone === instances[0] ? 'a' : 'b';
    const back = await start(name, `front-${kind}`, ['--listen', new URL(url).host, '--admin', new URL(admin).host]);
    instances[name === 'a' ? 0 : 1] = back;
    const other = instances[name === 'a' ? 1 : 0];
    const browser = { ...polling, withCredentials: true, reconnection: true, reconnectionDelay: 20 };
    await until(
      async () => {
        (await connect(front.url, `again-${kind}`, browser)).close();
        return (await opened(back)) > 0;
      },
      'new sessions come to it',
      20_000,
    );
    const clients = await Promise.all([0, 1].map((i) => connect(front.url, `killed-${kind}-${i}`, browser)));
    await until(async () => (await sum(open)) === 2, 'only they are here');
    // A session that goes on at the legacy, without its calls, if another instance passes its requests there.
    const handshake = `${front.url}/socket.io/?EIO=4&transport=polling`;
    const before = await opened(back);
    const answer = await fetch(handshake);
    const sid = /"sid":"([^"]+)"/.exec(await answer.text())?.[1];
    const headers = { cookie: answer.headers.get('set-cookie')?.split(';')[0] ?? '' };
    const [killed, left] = (await opened(back)) > before ? [back, other] : [other, back];
    await killed.kill();
    expect((await fetch(`${handshake}&sid=${sid}`, { headers })).status).toBeGreaterThanOrEqual(500);
    expect(
      (await fetch(`${handshake}&sid=${sid}`, { method: 'POST', headers, body: '3' })).status,
    ).toBeGreaterThanOrEqual(500);
    await until(async () => (await open(left)) >= 2, 'they come back to the other one', 15_000);
    await until(() => clients.every(({ socket }) => socket.connected), 'they are connected');
    for (const client of clients) {
      expect(await client.ask('call-end', { conversationId: 'dm:nobody:here' })).toMatchObject({
        error: 'No such call',
      });
      client.close();
    }
  }, 60_000);
});

it('HAProxy takes what is only commented in its file: peers, and a template of servers', async () => {
  const text = await readFile(new URL('../../deploy/haproxy/haproxy.cfg', import.meta.url), 'utf8');
  const folder = await mkdtemp(join(tmpdir(), 'sigfig-haproxy-'));
  const file = join(folder, 'haproxy.cfg');
  const name = hostname();
  const whole = text
    .replace(/^ {2}server sigfig\d .*\n/gm, '')
    .replace(/^( *)#(?=(peers|resolvers|server-template| {2}(peer|parse|hold)))/gm, '$1')
    .replace('peer lb-1 10.0.0.1', `peer ${name} 127.0.0.1`)
    .replace('expire 3m', 'expire 3m peers both');
  expect(whole).toMatch(/^ {2}server-template sigfig 1-12 /m);
  expect(whole).toMatch(/^peers both\n {2}peer /m);
  await writeFile(file, whole);
  const { status, stderr } = spawnSync(findProxy('haproxy') ?? 'haproxy', ['-c', '-L', name, '-f', file], {
    encoding: 'utf8',
  });
  await rm(folder, { recursive: true, force: true });
  expect(status, stderr).toBe(0);
});

/** As systemd and Docker do. */
function stop(instance: Proxy): Promise<number | NodeJS.Signals> {
  instance.signal('SIGTERM');
  return instance.exited;
}

/** As Kubernetes does: the preStop command of deployment.yaml until it ends, then SIGTERM. */
async function stopAsPod(instance: Proxy): Promise<number | NodeJS.Signals> {
  const [deployment] = documentsOf('deploy/kubernetes/deployment.yaml') as [
    { spec: { template: { spec: { containers: [{ lifecycle: { preStop: { exec: { command: string[] } } } }] } } } },
  ];
  const [, ...words] = deployment.spec.template.spec.containers[0].lifecycle.preStop.exec.command;
  const env = { ...process.env, SIGFIG_ADMIN: instance.admin };
  await promisify(execFile)(process.execPath, [at('dist/src/cli/sigfig.js'), ...words], { env });
  return stop(instance);
}

const ready = ({ admin }: Proxy): Promise<boolean> =>
  fetch(`${admin}/readyz`).then(
    ({ ok }) => ok,
    () => false,
  );

/** Whether it says 503 to a handshake, or nothing any more. */
const refusesNew = ({ url }: Proxy): Promise<boolean> =>
  fetch(`${url}/socket.io/?EIO=4&transport=polling`).then(
    ({ status }) => status === 503,
    () => true,
  );
