// Messages between instances over one real Redis: once, in order, through lost answers and broken connections, and bounded.
import { describe, expect } from 'vitest';
import { atOnce } from './at-once.fixture.js';
import { type Bed, type Instance, proxyTo, until } from './cluster.fixture.js';

const { server, it } = atOnce(4);

const to = ({ cluster }: Instance) => cluster.liveness.address;
const stream = (bed: Bed, instance: Instance): string => `${bed.prefix}:stream:{${to(instance)}}`;
const numbers = (count: number): number[] => Array.from({ length: count }, (_, i) => i);
const send = (from: Instance, at: Instance, body: unknown): void =>
  from.cluster.broker.send(to(at), { topic: 't', body });

describe('a message', () => {
  it('comes as it was, whatever is in it', async (bed) => {
    const [a, b] = await bed.several(2);
    const bodies = [null, 0, '', 'é\u2028\ud800', [1, [2]], { a: { b: null } }, 'x'.repeat(1_000_000)];
    for (const body of bodies) send(a!, b!, body);
    await until('all there', () => b!.got.length === bodies.length);
    expect(b!.got).toEqual(bodies);
  });

  it('goes out with all others of the same turn in one call of a script', async (bed) => {
    const [a, b] = await bed.several(2);
    const before = a!.link.asked.length;
    for (const i of numbers(100)) send(a!, b!, i);
    await until('all there', () => b!.got.length === 100);
    expect(a!.link.asked.slice(before).filter(({ name }) => name === 'send')).toHaveLength(1);
    expect(b!.got).toEqual(numbers(100));
  });

  it('does not wait for the answer to the one before it', async (bed) => {
    const [a, b] = await bed.several(2);
    const before = a!.link.asked.length;
    for (const i of numbers(5)) {
      send(a!, b!, i);
      // The next turn of the event loop: no answer can be here yet.
      await Promise.resolve();
      await Promise.resolve();
    }
    await until('all there', () => b!.got.length === 5);
    expect(a!.link.asked.slice(before).filter(({ name }) => name === 'send').length).toBeGreaterThan(1);
    expect(b!.got).toEqual(numbers(5));
  });

  it('to all goes to every other living one, and one to oneself comes back later', async (bed) => {
    const [a, b, c] = await bed.several(3);
    a!.cluster.broker.sendAll({ topic: 't', body: 'all' });
    await until('both', () => b!.got.length + c!.got.length === 2);
    expect([a!.got, b!.got, c!.got]).toEqual([[], ['all'], ['all']]);
    const body = { own: 1 };
    send(a!, a!, body);
    expect(a!.got).toEqual([]);
    await until('there', () => a!.got.length === 1);
    expect(a!.got).toEqual([body]);
    expect(a!.got[0]).not.toBe(body);
  });

  it('of a topic that nobody listens to, or whose listener fails, holds nothing up', async (bed) => {
    const [a, b] = await bed.several(2);
    b!.cluster.broker.on('bad', () => {
      throw new Error('bad listener');
    });
    a!.cluster.broker.send(to(b!), { topic: 'unknown', body: 1 });
    a!.cluster.broker.send(to(b!), { topic: 'bad', body: 2 });
    send(a!, b!, 3);
    await until('there', () => b!.got.length === 1);
    expect(b!.signals.events.filter(({ what }) => what === 'internalError').map(({ args }) => args[0])).toEqual([
      'message-bad',
    ]);
  });

  it('is counted on both sides', async (bed) => {
    const [a, b] = await bed.several(2);
    send(a!, b!, 'four');
    await until('there', () => b!.got.length === 1);
    expect(a!.signals.events).toContainEqual({ what: 'message', args: ['out', 't', 6] });
    expect(b!.signals.events).toContainEqual({ what: 'message', args: ['in', 't', 6] });
  });
});

describe('trouble', () => {
  it('of lost answers doubles nothing', async (bed) => {
    const [a, b] = await bed.several(2);
    for (const round of numbers(10)) {
      a!.link.loseAnswers('send', 1);
      b!.link.loseAnswers('XREAD', 1);
      send(a!, b!, round);
      await until('there', () => b!.got.length > round);
    }
    await until('empty', async () => (await server.ask('XLEN', stream(bed, b!))) === 0);
    expect(b!.got).toEqual(numbers(10));
  });

  it('of connections that break in the middle loses nothing, doubles nothing and keeps the order', async (bed) => {
    const proxies = [await proxyTo(server.port), await proxyTo(server.port)];
    try {
      const [a, b] = [await bed.start('a', { url: proxies[0]!.url }), await bed.start('b', { url: proxies[1]!.url })];
      await a.cluster.liveness.renew();
      const count = 3_000;
      let sent = 0;
      await until(
        'all sent',
        () => {
          for (let i = 0; i < 30 && sent < count; i++) {
            send(a, b, sent);
            send(b, a, sent);
            sent += 1;
          }
          if (sent % 600 === 0) proxies[sent % 1_200 === 0 ? 0 : 1]!.cut();
          return sent === count;
        },
        15_000,
      );
      await until('all there', () => a.got.length >= count && b.got.length >= count, 15_000);
      expect(a.got).toEqual(numbers(count));
      expect(b.got).toEqual(numbers(count));
    } finally {
      await Promise.all(proxies.map((proxy) => proxy.close()));
    }
  });

  it('of a Redis that is away keeps what is sent, and brings it once it is back', async (bed) => {
    const [a, b] = await bed.several(2);
    a!.link.cut();
    for (const i of numbers(50)) {
      send(a!, b!, i);
      await Promise.resolve();
    }
    a!.link.mend();
    await until('all there', () => b!.got.length === 50);
    expect(b!.got).toEqual(numbers(50));
  });

  it('of a Redis that forgot all brings what comes after, and doubles nothing', async (bed) => {
    const [a, b] = await bed.several(2);
    for (const i of numbers(10)) send(a!, b!, i);
    await until('there', () => b!.got.length === 10);
    const all = (await server.ask('KEYS', `${bed.prefix}:*`)) as string[];
    await server.ask('DEL', ...all);
    send(a!, b!, 10);
    await until('there', () => b!.got.length === 11);
    a!.link.loseAnswers('send', 1);
    send(a!, b!, 11);
    await until('there', () => b!.got.length === 12);
    expect(b!.got).toEqual(numbers(12));
  });
});

describe('what is kept', () => {
  it('for a process is at most 16 MiB and 30 s old, the oldest goes first', async (bed) => {
    const [a, b] = await bed.several(2);
    a!.link.cut();
    const text = 'x'.repeat(1_024 * 1_024);
    for (const i of numbers(20)) send(a!, b!, [i, text]);
    const dropped = () =>
      a!.signals.events.filter(({ what, args }) => what === 'bound' && args[0] === 'messages-dropped');
    expect(dropped().length).toBeGreaterThan(0);
    a!.link.mend();
    await until('the rest is there', () => b!.got.length === 15);
    expect(b!.got.map((body) => (body as [number])[0])).toEqual(numbers(20).slice(5));
    expect(b!.signals.events).toContainEqual({
      what: 'bound',
      args: ['messages-missed', { from: to(a!), count: 5 }],
    });

    a!.link.cut();
    send(a!, b!, 'old');
    await until('tried', () => a!.link.failed.includes('send'));
    a!.skip(31_000);
    send(a!, b!, 'new');
    b!.got.length = 0;
    a!.link.mend();
    await until('there', () => b!.got.length > 0);
    expect(b!.got).toEqual(['new']);
  });

  it('is no message over 4 MiB', async (bed) => {
    const [a, b] = await bed.several(2);
    send(a!, b!, 'x'.repeat(5_000_000));
    send(a!, b!, 'next');
    await until('there', () => b!.got.length === 1);
    expect(b!.got).toEqual(['next']);
    expect(a!.signals.events).toContainEqual({
      what: 'bound',
      args: ['message-size', { topic: 't', bytes: 5_000_002 }],
    });
  });

  it('in Redis is trimmed by its reader', async (bed) => {
    const [a, b] = await bed.several(2);
    for (const i of numbers(2_000)) send(a!, b!, i);
    await until('all there', () => b!.got.length === 2_000);
    await until('trimmed', async () => (await server.ask('XLEN', stream(bed, b!))) === 0);
    expect(b!.got).toEqual(numbers(2_000));
  });

  it('in Redis is bounded where nobody reads, and its reader says how many it missed', async (bed) => {
    const [a, b] = await bed.several(2);
    b!.link.deafen();
    const count = 20_000;
    for (const i of numbers(count)) send(a!, b!, i);
    await until('sent', async () => {
      const last = await server.ask('HGET', `${bed.prefix}:senders:{${to(b!)}}`, to(a!));
      return Number(last) === count;
    });
    const kept = (await server.ask('XLEN', stream(bed, b!))) as number;
    expect(kept).toBeLessThan(16_384 + 200);
    b!.link.hear();
    await until('read', () => b!.got.at(-1) === count - 1);
    const missed = b!.signals.events
      .filter(({ what, args }) => what === 'bound' && args[0] === 'messages-missed')
      .map(({ args }) => (args[1] as { count: number }).count);
    expect(missed.reduce((sum, one) => sum + one, 0)).toBe(count - b!.got.length);
    expect(b!.got.length).toBeGreaterThan(16_000);
  });
});

describe('the stream', () => {
  it('may hold what no instance wrote', async (bed) => {
    const [a, b] = await bed.several(2);
    const junk = [
      ['x', '1'],
      ['f', 'nobody', 'n', '1', 'l', '', 't', 't', 'b', '1'],
      ['f', to(a!), 'n', 'many', 'l', '', 't', 't', 'b', '1'],
      ['f', 'other-abcdefgh', 'n', '1', 'l', '', 't', 't', 'b', '{"cut'],
    ];
    for (const fields of junk) await server.ask('XADD', stream(bed, b!), '*', ...fields);
    send(a!, b!, 'well');
    await until('there', () => b!.got.length === 1);
    expect(b!.got).toEqual(['well']);
    expect(b!.signals.events.filter(({ what }) => what === 'unreadable')).toHaveLength(4);
  });

  it('of another type is deleted by whoever finds it, and messages go on', async (bed) => {
    const [a, b] = await bed.several(2);
    await server.ask('SET', stream(bed, b!), 'x');
    await server.ask('SET', `${bed.prefix}:senders:{${to(b!)}}`, 'x');
    for (const i of numbers(5)) send(a!, b!, i);
    await until('there', () => b!.got.length === 5);
    expect(b!.got).toEqual(numbers(5));
    const told = [...a!.signals.events, ...b!.signals.events].filter(({ what }) => what === 'unreadable');
    expect(told.map(({ args }) => args[0])).toContain(stream(bed, b!));
  });

  it('is counted on where a process was gone for a while', async (bed) => {
    const [a, b, c] = await bed.several(3);
    send(a!, b!, 1);
    await until('there', () => b!.got.length === 1);
    b!.link.freeze();
    await until('taken over', () => a!.recovered.length + c!.recovered.length === 1);
    await until('gone', () => !a!.cluster.liveness.isLiving(to(b!)));
    // Whoever is sent to next lets the one that is gone go.
    send(a!, c!, 'other');
    b!.link.thaw();
    await until('another life', () => b!.fenced.length === 1 && b!.cluster.liveness.mayAct());
    await until('known', () => a!.cluster.liveness.isLiving(to(b!)));
    send(a!, b!, 2);
    await until('there', () => b!.got.length === 2);
    expect(b!.got).toEqual([1, 2]);
  });
});
