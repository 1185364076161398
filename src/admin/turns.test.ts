import { expect, it } from 'vitest';
import { manualClock } from '../base/clock.js';
import { answer } from './answer.js';
import { turns } from './turns.js';

const settled = () => new Promise((resolve) => setImmediate(resolve));

/** Work that is over when the test says so, and then has used that much of the event loop. */
function bench() {
  const clock = manualClock();
  let used = 0;
  const all = turns({ clock, active: () => used });
  const begun: string[] = [];
  const ends = new Map<string, () => void>();
  return {
    clock,
    begun,
    take: (key: string, { kind = 'calls', actor = 'olga' } = {}) =>
      all.take({ kind, key, actor }, async () => {
        begun.push(key);
        await new Promise<void>((resolve) => ends.set(key, resolve));
        return answer({ key });
      }),
    async end(key: string, ms = 0) {
      used += ms;
      ends.get(key)?.();
      await settled();
    },
  };
}

it('one of a kind at a time, in the order in which they came; other kinds go on', async () => {
  const b = bench();
  const first = b.take('a');
  void b.take('b');
  void b.take('c');
  void b.take('h', { kind: 'history' });
  expect(b.begun).toEqual(['a', 'h']);
  await b.end('a');
  expect(await first).toMatchObject({ body: { key: 'a' } });
  expect(b.begun).toEqual(['a', 'h', 'b']);
  await b.end('b');
  expect(b.begun).toEqual(['a', 'h', 'b', 'c']);
});

it('what is asked alike shares an answer that was not begun before it was asked, and no other', async () => {
  const b = bench();
  const first = b.take('a');
  const [second, third] = [b.take('a', { actor: 'otto' }), b.take('a', { actor: 'otto' })];
  await b.end('a');
  expect(b.begun).toEqual(['a', 'a']);
  await b.end('a');
  const [one, two, three] = await Promise.all([first, second, third]);
  expect(two).toBe(three);
  expect(one).not.toBe(two);
  expect(b.begun).toHaveLength(2);
});

it('threat: one token, or many, ask for more than there is time for', async () => {
  const b = bench();
  void b.take('runs');
  const of = async (actor: string, n: number) => {
    const taken = Array.from({ length: n }, (_, i) => b.take(`${actor} ${i}`, { actor }));
    const busy = await Promise.all(taken.map((one) => Promise.race([one, settled()])));
    return busy.filter((one) => one === 'busy').length;
  };
  expect(await of('a', 10)).toBe(6);
  expect(await of('b', 3)).toBe(0);
  expect(await of('c', 4)).toBe(0);
  expect(await of('d', 4)).toBe(0);
  // Sixteen wait.
  expect(await of('e', 4)).toBe(3);
});

it('all of them together have a tenth of the time, and a tenth of a second at once', async () => {
  const b = bench();
  // One is taken to have used 25 ms at most.
  for (const [key, ms] of [
    ['a', 25],
    ['b', 70],
    ['c', 1_000],
    ['d', 15],
    ['e', 25],
  ] as const) {
    void b.take(key);
    await b.end(key, ms);
  }
  b.begun.length = 0;
  void b.take('f');
  void b.take('h', { kind: 'history' });
  await settled();
  expect(b.begun).toEqual([]);
  b.clock.advance(149);
  await settled();
  expect(b.begun).toEqual([]);
  b.clock.advance(20);
  await settled();
  expect(b.begun).toEqual(['f', 'h']);
});

it('one that fails tells so, and the next has its turn', async () => {
  const all = turns();
  const broken = all.take({ kind: 'k', key: 'a', actor: 'x' }, async () => Promise.reject(new Error('broken')));
  const next = all.take({ kind: 'k', key: 'b', actor: 'x' }, async () => answer({ well: true }));
  await expect(broken).rejects.toThrow('broken');
  expect(await next).toMatchObject({ body: { well: true } });
});
