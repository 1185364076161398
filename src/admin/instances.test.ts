// Several instances in one process: what each shows of the others, and which of them a drain empties.
import { describe, expect, it } from 'vitest';
import type { Address, InstanceId } from '../base/ids.js';
import { alone } from '../cluster/alone.js';
import type { Broker, InstanceInfo, Liveness, LivingInstance, Message } from '../cluster/cluster.js';
import { recordedSignals } from '../telemetry/signals.js';
import { call, fakeCalls, fakeConnected, tokens, tokensText, useBeds } from './admin.fixture.js';
import type { InstanceBody } from './api.js';
import { misfits } from './described.fixture.js';
import { readInfo, thisInstance } from './instance.js';
import { createInstances } from './instances.js';

const { closing, started } = useBeds();

/** Instances that hear of one another with each renewal, which is when somebody renews. */
function world() {
  const renewed = new Map<string, { id: InstanceId; info: () => InstanceInfo; last: InstanceInfo }>();
  const listeners = new Map<string, (body: unknown) => void>();
  const sent: { to: Address; message: Message }[] = [];
  let well = true;
  const renew = () => {
    for (const one of renewed.values()) one.last = one.info();
  };

  return {
    sent,
    renew,
    away: () => (well = false),
    /** What another version tells. */
    stranger: (id: string, info: InstanceInfo) =>
      renewed.set(id, { id: id as InstanceId, info: () => info, last: info }),
    say: (to: string, body: unknown) => listeners.get(to)?.(body),
    async instance(name: string, users: readonly string[] = [], startedAt = 1_700_000_000_000) {
      const address = name as Address;
      const id = `${name}.1` as InstanceId;
      const signals = recordedSignals();
      const drain = { draining: false, stopping: false, reasons: [] as string[] };
      const connected = fakeConnected({ '/': users });
      const calls = fakeCalls([call(`${name}-new`, 'new'), call(`${name}-legacy`, 'legacy')]);
      const self = thisInstance({
        version: '1.2.3',
        startedAt,
        connected,
        calls,
        draining: () => drain.draining,
        routesVersion: () => 7,
        leads: () => name === 'a',
        onError: (error) => signals.internalError('counting calls', error),
      });
      closing.push(() => self.close());
      const living = (): LivingInstance[] =>
        [...renewed].map(([address, { id, last }]) => ({
          id,
          address: address as Address,
          self: address === name,
          info: last,
          leaseAgeMs: 412.7,
        }));
      const cluster = {
        liveness: {
          living,
          well: () => well,
          leads: () => name === 'a',
        } as Pick<Liveness, 'living' | 'well'> as Liveness,
        broker: {
          send(to, message) {
            sent.push({ to, message });
            listeners.get(to)?.(JSON.parse(JSON.stringify(message.body)));
          },
          on: (_topic, listener) => void listeners.set(name, listener),
        } as Pick<Broker, 'send' | 'on'> as Broker,
      };
      const instances = createInstances({
        self,
        cluster,
        shared: true,
        signals,
        drain: {
          begin(reason) {
            drain.draining = true;
            drain.reasons.push(reason);
          },
          cancel: () => (drain.draining = drain.stopping),
          state: () => ({ draining: drain.draining, left: users.length }),
        },
      });
      renewed.set(address, { id, info: () => self.info(), last: self.info() });
      const bed = await started({ instances, calls, connected, signals, tokensText });
      const token = tokens.operate;
      return {
        ...bed,
        drain,
        signals,
        async list(): Promise<readonly InstanceBody[]> {
          return (await bed.ask('/api/status', { token })).body.instances;
        },
        async empty(which: string, body: object = {}, as: string = token) {
          const told = await bed.ask(`/api/instances/${encodeURIComponent(which)}/drain`, {
            token: as,
            body: { reason: 'a new version', ...body },
          });
          expect(misfits('/api/instances/{id}/drain', 'POST', told.status, told.body)).toEqual([]);
          return told;
        },
      };
    },
  };
}

const operated = (signals: ReturnType<typeof recordedSignals>) =>
  signals.events.filter(({ what }) => what === 'operated').map(({ args }) => args[0]);

describe('what is shown', () => {
  it('each as it told last, itself as it is now, and the sums of all', async () => {
    const all = world();
    const a = await all.instance('a', ['alice', 'bob']);
    const b = await all.instance('b', ['bob', 'carol', 'dora'], 1_700_000_005_000);
    await b.list(); // its calls are counted now
    all.renew();
    expect(await a.list()).toMatchObject([
      { id: 'a.1', self: true, leads: true, leaseAgeMs: 413, connections: 2, calls: { new: 1, legacy: 1 } },
      { id: 'b.1', self: false, leads: false, routesVersion: 7, users: 3, startedAt: '2023-11-14T22:13:25.000Z' },
    ]);
    const live = await a.ask('/api/live', { token: tokens.read });
    expect(live.body).toMatchObject({ connections: 5, users: 5, calls: { new: 2, legacy: 2, byState: {} } });
    // The list has calls of the new path wherever they are, and of the legacy's those that were seen here.
    const calls = await a.ask('/api/calls', { token: tokens.read });
    expect(calls.body).toMatchObject({ instances: 2, counts: { new: 2, legacy: 1 } });
    for (const [path, told] of [['/api/live', live] as const, ['/api/calls', calls] as const]) {
      expect(misfits(path, 'GET', told.status, told.body)).toEqual([]);
    }
  });

  it.each<[string, InstanceInfo, object]>([
    [
      'one of a newer version, with more',
      { version: '9.0.0', connections: 4, planets: [1], calls: { new: 2, byState: { ORBIT: 1 } } },
      { version: '9.0.0', connections: 4, calls: { new: 2, legacy: 0 } },
    ],
    ['one that tells nothing', {}, { version: '?', connections: 0, users: 0, lagMs: 0, draining: false }],
    [
      'nonsense',
      {
        version: 7,
        startedAt: 'yesterday',
        connections: -3,
        users: 1.5,
        calls: 'many',
        lagMs: 'slow',
        draining: 'yes',
        leads: 1,
      },
      { version: '?', connections: 0, users: 0, draining: false, leads: false },
    ],
  ])('%s is shown, and breaks nothing', async (_name, info, shows) => {
    const all = world();
    const a = await all.instance('a');
    all.stranger('z', info);
    const told = await a.ask('/api/status', { token: tokens.read });
    expect(misfits('/api/status', 'GET', told.status, told.body)).toEqual([]);
    expect(told.body.instances.find(({ id }: InstanceBody) => id === 'z')).toMatchObject(shows);
  });

  it('what is told is small, and is read as it was meant', async () => {
    const users = Array.from({ length: 5_000 }, (_, i) => `user-${i}`);
    const self = thisInstance({
      version: '1.2.3-rc.1+20261130',
      startedAt: 1_700_000_000_000,
      connected: fakeConnected({ '/': users }),
      calls: fakeCalls([call('a', 'new'), call('b', 'legacy')]),
      draining: () => true,
      routesVersion: () => 123_456,
      leads: () => true,
      onError: (error) => expect.fail(String(error)),
    });
    closing.push(() => self.close());
    const shown = await self.show();
    const text = JSON.stringify(self.info());
    expect(text.length).toBeLessThan(1_024);
    expect(readInfo(JSON.parse(text))).toEqual({ ...shown, lagMs: expect.any(Number) });
  });

  it('calls that can not be counted are told as they were', async () => {
    let broken = false;
    const calls = fakeCalls([call('a', 'new')]);
    const counts = async () => {
      if (broken) throw new Error('away');
      return calls.counts();
    };
    const errors: unknown[] = [];
    const about = { version: '1', startedAt: 0, draining: () => false, routesVersion: () => 1, leads: () => false };
    const onError = (error: unknown) => errors.push(error);
    const self = thisInstance({ ...about, connected: fakeConnected({}), calls: { counts }, onError });
    closing.push(() => self.close());
    await self.show();
    broken = true;
    await expect.poll(() => errors.slice(0, 1)).toEqual([new Error('away')]);
    expect(self.info()).toMatchObject({ calls: { new: 1 } });
  });
});

describe('a drain', () => {
  it('of this instance begins at once, says who and why, and can be taken back', async () => {
    const all = world();
    const a = await all.instance('a', ['alice', 'bob']);
    await all.instance('b');
    expect(await a.empty('self')).toMatchObject({ status: 200, body: { id: 'a.1', draining: true, connections: 2 } });
    expect(a.drain).toMatchObject({ draining: true, reasons: ['a new version'] });
    expect(await a.list()).toMatchObject([{ id: 'a.1', draining: true }, { draining: false }]);
    expect((await a.empty('a.1', { cancel: true, reason: 'not yet' })).body).toMatchObject({ draining: false });
    expect(a.drain.draining).toBe(false);
    expect(operated(a.signals)).toEqual([
      { actor: 'olga', via: 'api', did: 'drain this instance', reason: 'a new version' },
      { actor: 'olga', via: 'api', did: 'take back the drain of this instance', reason: 'not yet' },
    ]);
    expect(all.sent).toEqual([]);
  });

  it('of another one is told to that one only, and is written in both logs', async () => {
    const all = world();
    const [a, b, c] = [await all.instance('a'), await all.instance('bee', ['bob']), await all.instance('c')];
    all.renew();
    expect((await a.empty('be')).body).toEqual({ id: 'bee.1', draining: true, connections: 1 });
    expect([a.drain.draining, b.drain.draining, c.drain.draining]).toEqual([false, true, false]);
    expect(b.drain.reasons).toEqual(['a new version']);
    expect(all.sent.map(({ to, message }) => [to, message.topic])).toEqual([['bee', 'drain']]);
    expect(operated(a.signals)).toMatchObject([{ actor: 'olga', did: 'drain bee.1' }]);
    expect(operated(b.signals)).toMatchObject([{ actor: 'olga', did: 'drain this instance', reason: 'a new version' }]);
    expect((await c.empty('bee', { cancel: true })).body).toMatchObject({ draining: false });
    expect(b.drain.draining).toBe(false);
  });

  it('that is taken back where there is none says so, and is told all the same', async () => {
    const all = world();
    const [a, b] = [await all.instance('a', ['alice']), await all.instance('b')];
    expect(await a.empty('self', { cancel: true })).toMatchObject({
      ...{ status: 200, body: { id: 'a.1', draining: false, connections: 1, unchanged: true } },
    });
    expect((await a.empty('b', { cancel: true })).body).toMatchObject({ draining: false, unchanged: true });
    // Another one may have told it to drain since it told of itself.
    expect(all.sent.map(({ to }) => to)).toEqual(['b']);
    for (const which of ['self', 'b']) {
      expect((await a.empty(which, { force: true })).body).not.toHaveProperty('unchanged');
      expect((await a.empty(which, { cancel: true })).body).not.toHaveProperty('unchanged');
    }
    expect([a, b].map(({ drain }) => drain.draining)).toEqual([false, false]);
  });

  it('is for one instance that lives', async () => {
    const all = world();
    const a = await all.instance('pod-1');
    await all.instance('pod-2');
    await all.instance('pod-22');
    for (const [id, line] of [
      ['nobody', 'no living instance has an id that begins with "nobody"; "sigfig status" shows them'],
      ['pod-', 'the ids of 3 instances begin with "pod-"; write more of it, as "sigfig status" shows it'],
      ['pod-2.2', /^no living instance/],
    ] as const) {
      const told = await a.empty(id);
      expect([told.status, told.body.problems]).toEqual([
        404,
        [typeof line === 'string' ? line : expect.stringMatching(line)],
      ]);
    }
    // The address of one is no beginning of another's.
    expect((await a.empty('pod-2')).body.id).toBe('pod-2.1');
  });

  it('is refused where nobody would take new connections, unless it is forced', async () => {
    const all = world();
    const [a, b] = [await all.instance('a'), await all.instance('b')];
    // Before the other one has told of it, too.
    expect((await a.empty('b')).status).toBe(200);
    all.stranger('b', { draining: false });
    const refused = await a.empty('self');
    expect(refused).toMatchObject({ status: 422, body: { error: 'refused' } });
    expect(refused.body.problems[0]).toMatch(/^a\.1 is the last instance that is not draining: .*insist with --force/);
    expect(a.drain.draining).toBe(false);
    // What drains already may be told again.
    expect((await b.empty('self', { force: true })).status).toBe(200);
    expect((await a.empty('self', { force: true })).status).toBe(200);
    expect(a.drain.draining).toBe(true);
    expect((await a.empty('self')).status).toBe(200);
    expect((await a.empty('self', { cancel: true })).status).toBe(200);
  });

  it('of another one needs Redis; of this one it does not', async () => {
    const all = world();
    const a = await all.instance('a');
    await all.instance('b');
    all.away();
    const told = await a.empty('b');
    expect(told).toMatchObject({ status: 503, body: { error: 'unwritable' } });
    expect(told.body.problems[0]).toContain('ask the admin port of that instance itself');
    expect(all.sent).toEqual([]);
    expect((await a.empty('self')).status).toBe(200);
  });

  it('that is an end can not be taken back', async () => {
    const all = world();
    const a = await all.instance('a');
    await all.instance('b');
    Object.assign(a.drain, { draining: true, stopping: true });
    const told = await a.empty('self', { cancel: true });
    expect(told).toMatchObject({ status: 422 });
    expect(told.body.problems[0]).toContain('stops for good');
  });

  it('needs a token that may operate, a reason, and nothing that is not known', async () => {
    const all = world();
    const a = await all.instance('a');
    await all.instance('b');
    expect((await a.empty('b', {}, tokens.read)).status).toBe(403);
    for (const body of [{ reason: undefined }, { reason: ' ' }, { reason: 'a\u001b[2J' }, { force: 1 }, { pods: 2 }]) {
      expect((await a.empty('b', body)).status).toBe(400);
    }
    expect(all.sent).toEqual([]);
  });

  it('threat: a message of another instance that is not what it should be drains nothing', async () => {
    const all = world();
    const a = await all.instance('a');
    for (const body of [
      null,
      'drain',
      {},
      { cancel: false, reason: 7, actor: 'x', via: 'api' },
      { cancel: false, reason: 'x', actor: 'x', via: 'moon' },
    ]) {
      all.say('a', body);
    }
    expect(a.drain.draining).toBe(false);
    expect(a.signals.events.filter(({ what }) => what === 'internalError')).toHaveLength(5);
    all.say('a', { cancel: false, reason: 'x', actor: 'x', via: 'api', sinceVersion: 9 });
    expect(a.drain.draining).toBe(true);
  });
});

it('without another instance, ever, it says so', async () => {
  const signals = recordedSignals();
  const drain = { draining: false };
  const self = thisInstance({
    version: '1',
    startedAt: 0,
    connected: fakeConnected({}),
    calls: fakeCalls(),
    draining: () => drain.draining,
    routesVersion: () => 1,
    leads: () => true,
    onError: () => undefined,
  });
  closing.push(() => self.close());
  const instances = createInstances({
    self,
    cluster: alone({ socketsOf: () => [], isConnected: () => false }, 'here'),
    shared: false,
    signals,
    drain: {
      begin: () => (drain.draining = true),
      cancel: () => (drain.draining = false),
      state: () => ({ draining: drain.draining, left: 0 }),
    },
  });
  const bed = await started({ instances });
  expect((await bed.ask('/api/status')).body.instances).toMatchObject([{ id: 'here', self: true, leaseAgeMs: null }]);
  const refused = await bed.ask('/api/instances/self/drain', { body: { reason: 'x' } });
  expect(refused).toMatchObject({ status: 422 });
  expect(refused.body.problems[0]).toContain('started without --redis');
  expect((await bed.ask('/api/instances/self/drain', { body: { reason: 'x', force: true } })).status).toBe(200);
  expect(drain.draining).toBe(true);
});
