// Who is connected where, over one real Redis: several devices and instances, lost answers, dead ones, and what is never left behind.
import { describe, expect } from 'vitest';
import type { Namespace, UserId } from '../base/ids.js';
import { atOnce } from './at-once.fixture.js';
import { type Bed, type Instance, ns, until, user } from './cluster.fixture.js';

const { server, it } = atOnce(6);

const alice = user('alice');
const hash = (bed: Bed, name: string): string => `${bed.prefix}:presence:{%2F|${name}}`;
const index = (bed: Bed, { cluster }: Instance): string => `${bed.prefix}:sockets:{${cluster.liveness.id}}`;
const seen = async ({ cluster }: Instance, who: UserId = alice): Promise<string[]> =>
  (await cluster.presence.socketsOf(ns, who)).map(({ id, connection, at }) => `${id} ${connection} ${at}`).sort();
const written = async ({ link }: Instance, ask: () => void, names: readonly string[]): Promise<string[]> => {
  const before = link.asked.length;
  ask();
  const those = (): string[] =>
    link.asked
      .slice(before)
      .map(({ name }) => name)
      .filter((name) => names.includes(name));
  await until('written', () => those().length >= names.length);
  return those();
};

describe('a user', () => {
  it('with several devices on several instances is seen with all of them from each', async (bed) => {
    const all = await bed.several(3);
    const refs = [0, 0, 1, 2].map((at, i) => all[at]!.connect('alice', `s${i}`, i + 1).ref);
    const shown = refs.map(({ id, connection, at }) => `${id} ${connection} ${at}`).sort();
    for (const one of all) await until('all seen', async () => (await seen(one)).length === 4);
    for (const one of all) expect(await seen(one)).toEqual(shown);
    for (const { cluster } of all) {
      for (const ref of refs) expect(await cluster.presence.isConnected(ref, alice)).toBe(true);
      expect(await cluster.presence.isConnected({ ...refs[2]!, connection: 99 as never }, alice)).toBe(false);
      expect(await cluster.presence.isConnected(refs[2]!, user('bob'))).toBe(refs[2]!.at === cluster.liveness.address);
    }
  });

  it('is told apart by namespace, whatever is in its name', async (bed) => {
    const [a, b] = await bed.several(2);
    const odd: readonly (readonly [string, string])[] = [
      ['/a', 'b|c'],
      ['/a|b', 'c'],
      ['/', '{x}'],
      ['/', '\ud800'],
      ['/', '\ufffd'],
      ['/x', ''],
      ['/', '__proto__'],
    ];
    for (const [i, [space, name]] of odd.entries()) {
      const ref = {
        ns: space as Namespace,
        id: `s${i}` as never,
        connection: 1 as never,
        at: a!.cluster.liveness.address,
      };
      const peer = { ref, user: user(name), token: undefined };
      a!.sockets.add(peer);
      a!.cluster.presence.add(peer);
    }
    for (const [i, [space, name]] of odd.entries()) {
      const those = () => b!.cluster.presence.socketsOf(space as Namespace, user(name));
      await until('seen', async () => (await those()).length > 0);
      expect((await those()).map(({ id }) => id)).toEqual([`s${i}`]);
    }
  });

  it('is here at once, without asking, and not from the moment that its last socket is gone', async (bed) => {
    const [a] = await bed.several(1);
    const peer = a!.connect('alice', 's1');
    expect(a!.cluster.presence.isConnected(peer.ref, alice)).toBe(true);
    expect(await seen(a!)).toHaveLength(1);
    a!.disconnect(peer);
    expect(a!.cluster.presence.isConnected(peer.ref, alice)).toBe(false);
    expect(await seen(a!)).toEqual([]);
    expect(a!.cluster.presence.peek(ns, alice)).toBeUndefined();
  });

  it('without a verified token is nobody', async (bed) => {
    const [a, b] = await bed.several(2);
    const ref = { ns, id: 's1' as never, connection: 1 as never, at: a!.cluster.liveness.address };
    a!.cluster.presence.add({ ref, user: undefined, token: undefined });
    a!.connect('alice', 's2');
    await until('seen', async () => (await seen(b!)).length === 1);
    expect(await server.ask('KEYS', `${bed.prefix}:presence:*`)).toEqual([hash(bed, 'alice')]);
    a!.cluster.presence.remove({ ref, user: undefined, token: undefined });
  });

  it('on an instance that began a moment ago is seen there', async (bed) => {
    const [a] = await bed.several(1);
    const b = await bed.start('new');
    b.connect('alice', 's1');
    await until('written', async () => (await server.ask('EXISTS', hash(bed, 'alice'))) === 1);
    expect(await seen(a!)).toHaveLength(1);
  });
});

describe('a connect', () => {
  it('costs two calls of a script, and so does the end of it, however many others there are', async (bed) => {
    const [a, b] = await bed.several(2);
    for (let i = 0; i < 300; i++) a!.connect(`user${i}`, `u${i}`);
    await until('seen', async () => (await seen(b!, user('user299'))).length === 1);
    const both = ['presence', 'presence-index'];
    let peer = a!.connect('alice', 's1');
    await until('seen', async () => (await seen(b!)).length === 1);
    expect((await written(a!, () => (peer = a!.connect('alice', 's2')), both)).sort()).toEqual(both);
    await until('seen', async () => (await seen(b!)).length === 2);
    expect((await written(a!, () => a!.disconnect(peer), both)).sort()).toEqual(both);
    await until('gone', async () => (await seen(b!)).length === 1);
  });

  it('of hundreds in one turn is one entry of the index and goes out in batches', async (bed) => {
    const [a, b] = await bed.several(2);
    const before = a!.link.asked.length;
    for (let i = 0; i < 1_000; i++) a!.connect(`user${i}`, `u${i}`);
    await until('all written', async () => (await server.ask('SCARD', index(bed, a!))) === 1_000);
    await until('seen', async () => (await seen(b!, user('user999'))).length === 1);
    const names = a!.link.asked.slice(before).map(({ name }) => name);
    // A few may have come too late on a busy machine, and were written again.
    expect(names.filter((name) => name === 'presence').length).toBeLessThan(1_100);
    expect(names.filter((name) => name === 'presence-index').length).toBeLessThan(10);
  });
});

describe('what Redis was told', () => {
  it('survives lost answers, in both directions', async (bed) => {
    const [a, b] = await bed.several(2);
    a!.link.loseAnswers('presence', 2);
    a!.link.loseAnswers('presence-index', 1);
    const peer = a!.connect('alice', 's1');
    await until('seen', async () => (await seen(b!)).length === 1);
    a!.link.loseAnswers('presence', 1);
    a!.disconnect(peer);
    await until('gone', async () => (await seen(b!)).length === 0);
    await until('no index', async () => (await server.ask('EXISTS', index(bed, a!))) === 0);
    expect(await server.ask('EXISTS', hash(bed, 'alice'))).toBe(0);
  });

  it('is caught up with after Redis was away', async (bed) => {
    const [a, b] = await bed.several(2);
    const gone = a!.connect('alice', 's1');
    await until('seen', async () => (await seen(b!)).length === 1);
    a!.link.cut();
    a!.disconnect(gone);
    a!.connect('bob', 's2');
    a!.disconnect(a!.connect('carol', 's3'));
    await expect(a!.cluster.presence.socketsOf(ns, alice)).rejects.toMatchObject({ name: 'Unavailable' });
    await expect(
      a!.cluster.presence.isConnected({ ...gone.ref, at: b!.cluster.liveness.address }, alice),
    ).rejects.toMatchObject({ name: 'Unavailable' });
    a!.link.mend();
    await until('caught up', async () => (await seen(b!)).length === 0 && (await seen(b!, user('bob'))).length === 1);
    expect(await seen(b!, user('carol'))).toEqual([]);
  });

  it('does not wait for a renewal that is late', async (bed) => {
    const [a, b] = await bed.several(2);
    a!.link.fate(
      'renew',
      Array.from({ length: 20 }, () => 'not done' as const),
    );
    a!.skip(2_500);
    expect(a!.cluster.liveness.mayAct()).toBe(false);
    a!.connect('alice', 's1');
    await until('seen', async () => (await seen(b!)).length === 1);
    expect(a!.cluster.liveness.mayAct()).toBe(false);
  });

  it('is not undone by a write that comes too late', async (bed) => {
    const [a] = await bed.several(1);
    const { writePresenceScript } = await import('./presence-scripts.js');
    const { id, address } = a!.cluster.liveness;
    const redis = await bed.redis();
    const late = await redis.run(
      writePresenceScript,
      [hash(bed, 'alice')],
      [id, address, Date.now() - 60_000, 0, 1, 's1\n1'],
    );
    expect(late).toBe(0);
    expect(await server.ask('EXISTS', hash(bed, 'alice'))).toBe(0);
    await redis.close();
  });

  it('is compared with what is here where Redis comes back with an older state', async (bed) => {
    const [a, b] = await bed.several(2);
    a!.connect('alice', 's1');
    await until('seen', async () => (await seen(b!)).length === 1);
    // As it was before: another socket, and a user who is gone since.
    await server.ask('DEL', hash(bed, 'alice'));
    await server.ask('HSET', hash(bed, 'alice'), 's0\n1', a!.cluster.liveness.id);
    await server.ask('HSET', hash(bed, 'bob'), 's9\n9', a!.cluster.liveness.id);
    await server.ask('SADD', index(bed, a!), '["/","bob"]', 'junk', '[1]');
    await server.ask('HSET', `${bed.prefix}:beats:{live}`, a!.cluster.liveness.id, 0);
    await until('told', () => a!.back.includes(true));
    await until(
      'as it is',
      async () => (await seen(b!)).join().startsWith('s1') && (await seen(b!, user('bob'))).length === 0,
    );
    expect(await seen(b!)).toHaveLength(1);
  });

  it('is removed with a dead instance, and only that', async (bed) => {
    const [a, b, dead] = await bed.several(3);
    a!.connect('alice', 's1');
    for (let i = 0; i < 600; i++) dead!.connect(`user${i}`, `u${i}`);
    dead!.connect('alice', 's2');
    await until('written', async () => (await server.ask('SCARD', index(bed, dead!))) === 601);
    await until('seen', async () => (await seen(b!)).length === 2);
    await dead!.kill();
    await until('handled', () => a!.recovered.length + b!.recovered.length === 1);
    await until('gone', async () => (await seen(b!)).join() === `s1 1 ${a!.cluster.liveness.address}`);
    await until('cleared', async () => (await server.ask('EXISTS', index(bed, dead!))) === 0);
    expect(await server.ask('KEYS', `${bed.prefix}:presence:*`)).toEqual([hash(bed, 'alice')]);
    expect(await server.ask('HKEYS', hash(bed, 'alice'))).toEqual(['s1\n1']);
  });

  it('counts for nobody where the life that wrote it is over and nobody removed it', async (bed) => {
    const [a] = await bed.several(1);
    for (const life of ['long-ago-abcdefgh.1', 'junk', `${a!.cluster.liveness.address}.99`]) {
      await server.ask('HSET', hash(bed, 'alice'), `${life}\n1`, life);
    }
    await server.ask('HSET', hash(bed, 'alice'), 'no connection', a!.cluster.liveness.id, '\n', a!.cluster.liveness.id);
    const renewals = () => a!.link.asked.filter(({ name }) => name === 'renew').length;
    const before = renewals();
    for (let i = 0; i < 20; i++) expect(await seen(a!)).toEqual([]);
    // Once it was asked for, it is known to be gone.
    expect(renewals() - before).toBeLessThan(5);
  });

  it('where the key holds another type is written again by all', async (bed) => {
    const [a, b, c] = await bed.several(3);
    a!.connect('alice', 's1');
    b!.connect('alice', 's2');
    await until('seen', async () => (await seen(c!)).length === 2);
    await server.ask('SET', hash(bed, 'alice'), 'x');
    expect(await seen(c!)).toEqual([]);
    expect(c!.signals.events).toContainEqual({
      what: 'unreadable',
      args: [hash(bed, 'alice'), 'a string where a hash must be; deleted'],
    });
    await until('seen again', async () => (await seen(c!)).length === 2);

    await server.ask('SET', hash(bed, 'alice'), 'x');
    await server.ask('DEL', index(bed, a!));
    await server.ask('SET', index(bed, a!), 'x');
    a!.connect('alice', 's3');
    await until('seen again', async () => (await seen(c!)).length === 3);
    expect(await server.ask('TYPE', index(bed, a!))).toBe('set');
  });

  it('stays, although it has a time to live, and leaves nothing behind', async (bed) => {
    const [a, b] = await bed.several(2);
    const peer = a!.connect('alice', 's1');
    await until('seen', async () => (await seen(b!)).length === 1);
    for (const key of [hash(bed, 'alice'), index(bed, a!)]) {
      expect(await server.ask('PTTL', key)).toBeGreaterThan(3_000_000);
    }
    a!.disconnect(peer);
    await until('gone', async () => (await server.ask('EXISTS', hash(bed, 'alice'), index(bed, a!))) === 0);
  });
});
