// An operator at a cluster of real processes: the built command and the admin API of one instance show all of them, drain any of
// them and take that back, and say what does not go while Redis is away or an instance is gone.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import type { CallsBody, InstanceBody, LiveBody, StatusBody } from '../../src/admin/api.js';
import { misfits } from '../../src/admin/described.fixture.js';
import { sigfig as operate } from '../../src/cli/sigfig.js';
import { type Bed, type Instance, inCall, startBed, websocket } from '../cluster/bed.js';
import { type Client, until, within } from '../harness.js';

const command = fileURLToPath(new URL('../../dist/src/cli/sigfig.js', import.meta.url));
const children = new Set<ChildProcess>();
let clients: Client[] = [];
let bed: Bed;
let one: Instance;
let two: Instance;
let three: Instance;
beforeAll(async () => {
  bed = await startBed({ instances: 3, args: ['--drain-delay', '0s', '--drain', '500ms'] });
  [one, two, three] = bed.instances as [Instance, Instance, Instance];
}, 60_000);
afterAll(() => bed?.close());
afterEach(() => {
  for (const child of children) child.kill('SIGKILL');
  children.clear();
  for (const client of clients) client.close();
  clients = [];
});

/** The command, asking this instance; in this process, which is quicker by the start of one. */
async function sigfig(at: Instance, ...args: string[]) {
  const seen = { out: '', err: '' };
  const ended = operate(args, {
    out(text) {
      seen.out += text;
    },
    err(text) {
      seen.err += text;
    },
    run: () => Promise.reject(new Error('nothing is started here')),
    env: { SIGFIG_ADMIN: at.admin },
    user: 'olga',
  });
  const code = await within(20_000, `sigfig ${args.join(' ')} ends`, ended);
  return { code, ...seen };
}

/** Each answer is held to its description. */
async function get<T>(at: Instance, path: string): Promise<T> {
  const response = await fetch(at.admin + path);
  const body: unknown = await response.json();
  // A condition that is polled may ask more often than the API takes.
  if (response.status === 429) return get(at, path);
  expect(misfits(path.replace(/\?.*/, ''), 'GET', response.status, body)).toEqual([]);
  return body as T;
}
const instances = async (at: Instance): Promise<readonly InstanceBody[]> =>
  (await get<StatusBody>(at, '/api/status')).instances;
const named = async (at: Instance, which: Instance): Promise<InstanceBody | undefined> =>
  (await instances(at)).find(({ id }) => id.startsWith(`${which.name}-`));
const idOf = async (which: Instance): Promise<string> => (await named(which, which))?.id ?? '';
const ready = async (which: Instance): Promise<boolean> => (await fetch(`${which.admin}/readyz`)).status === 200;
/** A browser that stays away once it is disconnected; it leaves at the end of the test. */
async function on(which: Instance, user: string): Promise<Client> {
  const client = await bed.on(which, user, { ...websocket, reconnection: false });
  clients.push(client);
  return client;
}

describe('what is seen', () => {
  test('each instance shows all of them alike, and their sums', async () => {
    const [a, b] = [await on(one, 'ann'), await on(two, 'ben'), await on(three, 'cleo')];
    const conversationId = await inCall(a, b);
    const own = await Promise.all(bed.instances.map(async (at) => (await named(at, at))?.calls.new));
    expect(own.toSorted(), 'a call on two instances is counted once').toEqual([0, 0, 1]);
    for (const at of bed.instances) {
      await until(async () => {
        const { connections, users, calls } = await get<LiveBody>(at, '/api/live');
        return connections === 3 && users === 3 && calls.new === 1;
      }, `${at.name} has heard of the people and their call`);
      const live = await get<LiveBody>(at, '/api/live');
      expect(live.instances.filter(({ self }) => self).map(({ id }) => id.startsWith(`${at.name}-`))).toEqual([true]);
      expect(live.instances.filter(({ leads }) => leads)).toHaveLength(1);
      for (const { leaseAgeMs, lagMs, connections, routesVersion, draining } of live.instances) {
        expect(leaseAgeMs).toBeLessThan(3_000);
        expect(lagMs).toBeGreaterThanOrEqual(0);
        expect({ connections, routesVersion, draining }).toEqual({
          connections: 1,
          routesVersion: live.routes.version,
          draining: false,
        });
      }
      expect(await get<StatusBody>(at, '/api/status')).toMatchObject({ ready: true, redis: { reachable: true } });
    }
    const { out } = await sigfig(three, 'status');
    expect(out).toMatch(/^redis +redis:\/\/127\.0\.0\.1:\d+ reachable$/m);
    expect(out.match(/ +v1 +\d\.\ds +serving(, leads)?$/gm)).toHaveLength(3);
    expect(out).toMatch(/^all 3 +3 +3 +1 +0$/m);

    // A call of two other instances is listed, shown and ended by this one.
    const list = await sigfig(three, 'calls', 'list', '--path', 'new');
    expect(list.out).toContain(conversationId);
    expect(list.out).toContain('; 3 instances, calls on legacy are those that this one has seen\n');
    const id = (await get<CallsBody>(three, '/api/calls')).calls[0]?.id ?? '';
    const shown = await sigfig(three, 'calls', 'show', id);
    expect(shown.out).toMatch(
      /^state +CONNECTED for .*\n\nnothing of it happened on the instance that was asked; there may be more of it on i[12]\S+, i[12]\S+\n$/ms,
    );
    expect(await sigfig(three, 'calls', 'end', id, '--reason', 'asked for')).toMatchObject({ code: 0, err: '' });
    for (const client of [a, b]) expect(await client.next('call-ended')).toMatchObject({ reason: 'operator' });
  });
});

describe('a drain', () => {
  test('asked at another instance empties one; what is left is shown, both logs say who; it can be taken back', async () => {
    const people = await Promise.all(['dora', 'emil', 'fay'].map((user) => on(two, user)));
    const stays = await on(one, 'gus');
    await until(async () => (await named(one, two))?.connections === 3, 'the three are seen');
    const id = await idOf(two);
    const { code, out, err } = await sigfig(one, 'drain', id.slice(0, -3), '--reason', 'a new version');
    expect({ code, err }).toEqual({ code: 0, err: '' });
    expect(out.split('\n').at(-2)).toBe(`${id} drains; 0 connections left`);
    expect(out.split('\n')[0]).toBe(`${id} drains; 3 connections left`);
    await until(() => people.every(({ socket }) => !socket.connected), 'they are disconnected');
    expect(stays.socket.connected).toBe(true);
    expect([await ready(one), await ready(two), await ready(three)]).toEqual([true, false, true]);
    expect(await get<StatusBody>(two, '/api/status')).toMatchObject({ ready: false, reasons: ['draining'] });
    expect((await sigfig(three, 'status')).out).toMatch(new RegExp(`^${id} .* draining`, 'm'));
    const logged = (of: Instance, did: string) => of.stderr().includes(`"did":"${did}","reason":"a new version"`);
    expect([logged(one, `drain ${id}`), logged(two, 'drain this instance'), logged(three, 'drain')]).toEqual([
      true,
      true,
      false,
    ]);
    expect(two.stderr()).toContain('"actor":"olga"');
    await expect(on(two, 'hal')).rejects.toThrow();

    expect(await sigfig(three, 'drain', id, '--cancel', '--reason', 'not yet')).toEqual({
      code: 0,
      out: `${id} takes connections again\n`,
      err: '',
    });
    await until(() => ready(two), 'it is ready again');
    await on(two, 'ida');
  });

  test('of the last one that is left is refused, unless it is forced', async () => {
    for (const which of [two, three]) {
      const told = await sigfig(one, 'drain', await idOf(which), '--reason', 'x', '--no-wait');
      expect(told).toMatchObject({ code: 0, out: expect.stringContaining(' drains; 0 connections open\n') });
    }
    const last = await sigfig(one, 'drain', '--reason', 'x');
    expect(last).toMatchObject({
      code: 1,
      out: '',
      err: expect.stringMatching(
        /^sigfig: i1-\S+ is the last instance that .*insist with --force \("force": true\)\n$/,
      ),
    });
    expect(await ready(one)).toBe(true);
    expect((await sigfig(one, 'drain', '--force', '--reason', 'all of it')).code).toBe(0);
    expect(await ready(one)).toBe(false);
    for (const which of bed.instances) {
      const told = await sigfig(two, 'drain', await idOf(which), '--cancel', '--reason', 'x');
      expect(told.code).toBe(0);
      await until(() => ready(which), `${which.name} is ready again`);
    }
  });

  test('that is watched ends with Ctrl-C, and goes on', async () => {
    const id = await idOf(two);
    const slow = await bed.add('slow', ['--drain', '60s']);
    await until(async () => (await named(one, slow)) !== undefined, 'it is seen');
    await Promise.all(['jo', 'kim', 'lou'].map((user) => on(slow, user)));
    await until(async () => (await named(one, slow))?.connections === 3, 'the three are seen');
    const child = spawn(process.execPath, [command, 'drain', 'slow', '--reason', 'x'], {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { PATH: process.env.PATH, SIGFIG_ADMIN: one.admin },
    });
    children.add(child);
    const seen = { out: '', err: '' };
    child.stdout.on('data', (text) => (seen.out += text));
    child.stderr.on('data', (text) => (seen.err += text));
    const ended = once(child, 'close');
    await until(async () => seen.out !== '' && !(await ready(slow)), 'it drains');
    child.kill('SIGINT');
    const [code] = await within(10_000, 'the command ends', ended);
    expect(code).toBe(0);
    expect(seen.err).toMatch(/^sigfig: slow-\S+ goes on draining; "sigfig drain slow-\S+ --cancel" takes that back\n$/);
    expect(await ready(slow)).toBe(false);
    expect(await idOf(two), 'nobody else was touched').toBe(id);
    await slow.kill();
    await until(async () => (await named(one, slow)) === undefined, 'it is dead', 10_000);
  });
});

describe('what is gone', () => {
  test('where Redis is away this instance is shown and drained, and another one can not be told', async () => {
    const id = await idOf(two);
    one.link.cut();
    try {
      await until(
        async () => (await get<StatusBody>(one, '/api/status')).redis?.reachable === false,
        'it is noticed',
        10_000,
      );
      expect((await sigfig(one, 'status')).out).toMatch(/^redis +\S+ not reachable: the legacy is served/m);
      const list = await sigfig(one, 'calls', 'list');
      expect(list).toMatchObject({ code: 1, out: '' });
      expect(list.err).toMatch(/^sigfig: what the instances share can't be reached now [^\n]*\n$/);
      expect((await sigfig(one, 'calls', 'list', '--path', 'legacy')).code).toBe(0);
      const dry = await sigfig(one, 'routes', 'legacy', '--all', '--dry-run');
      expect(dry).toMatchObject({
        code: 0,
        out: expect.stringContaining("how many live calls it concerns can't be counted"),
      });
      const other = await sigfig(one, 'drain', id, '--reason', 'x');
      expect(other).toMatchObject({ code: 1, out: '' });
      expect(other.err).toMatch(
        /^sigfig: nothing was changed: Redis can't be reached, .*the admin port of that instance itself\n$/,
      );
      expect(await ready(two)).toBe(true);
      expect((await sigfig(one, 'drain', '--force', '--no-wait', '--reason', 'x')).code).toBe(0);
      await until(async () => !(await ready(one)), 'it drains');
      expect((await sigfig(one, 'drain', '--cancel', '--reason', 'x')).code).toBe(0);
    } finally {
      one.link.mend();
    }
    await until(
      async () => (await get<StatusBody>(one, '/api/status')).redis?.reachable === true,
      'Redis is back',
      10_000,
    );
    await until(
      async () => (await instances(one)).length === 3 && (await instances(two)).length === 3,
      'all see all again',
      10_000,
    );
  });

  test('an instance that was killed is not shown any more, and can not be drained', async () => {
    const id = await idOf(three);
    await three.kill();
    await until(async () => (await instances(one)).length === 2, 'it is gone', 8_000);
    const told = await sigfig(one, 'drain', id, '--reason', 'x');
    expect(told).toMatchObject({
      code: 1,
      out: '',
      err: expect.stringContaining('no living instance has an id that begins with'),
    });
    expect((await sigfig(two, 'status')).out).toMatch(/^all 2 /m);
  });
});
