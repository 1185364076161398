import { describe, expect, test } from 'vitest';
import { manualClock } from '../base/clock.js';
import { mostAckWaitMs } from '../base/service.js';
import { Awaited, mostAwaited } from './awaited.js';

function awaited() {
  const clock = manualClock();
  const bounds: string[] = [];
  const faults: unknown[] = [];
  const it = new Awaited({
    clock,
    bound: (what) => bounds.push(what),
    failed: (error) => faults.push(error),
  });
  return { it, clock, bounds, faults };
}

describe('acknowledgements that a service wants to see', () => {
  test('each is told once, by namespace and id', async () => {
    const { it } = awaited();
    const told: unknown[] = [];
    it.add('/', 1, (args) => void told.push(['/', ...args]));
    it.add('/app', 1, (args) => [...args, 'more']);
    expect([it.size, it.has('/', 1), it.has('/', 11), it.has('/ap', 1)]).toEqual([2, true, false, false]);
    expect(await it.came('/', 1, ['a'])).toBeNull();
    expect(await it.came('/', 1, ['again'])).toBeNull();
    expect(await it.came('/app', 1, ['b'])).toEqual(['b', 'more']);
    expect(told).toEqual([['/', 'a']]);
    expect(it.size).toBe(0);
  });

  test('a promise is waited for', async () => {
    const { it } = awaited();
    it.add('/', 1, async (args) => [args[0], 'later']);
    it.add('/', 2, async () => null);
    expect(await it.came('/', 1, ['a'])).toEqual(['a', 'later']);
    expect(await it.came('/', 2, ['a'])).toBeNull();
  });

  test('one that does not settle is let go, and what it says later counts no more', async () => {
    const { it, clock, bounds } = awaited();
    let say: (args: readonly unknown[]) => void = () => expect.unreachable();
    it.add('/', 1, () => new Promise((resolve) => (say = resolve)));
    const came = it.came('/', 1, []);
    clock.advance(mostAckWaitMs);
    expect(bounds).toEqual([]);
    clock.advance(300);
    say(['late']);
    expect(await came).toBeNull();
    expect(bounds).toEqual(['ack-wait']);
  });

  test('a watcher that throws or rejects changes nothing and is told of', async () => {
    const { it, faults } = awaited();
    it.add('/', 1, () => {
      throw new Error('one');
    });
    it.add('/', 2, () => Promise.reject(new Error('two')));
    expect(await it.came('/', 1, [])).toBeNull();
    expect(await it.came('/', 2, [])).toBeNull();
    expect(faults.map(String)).toEqual(['Error: one', 'Error: two']);
  });

  test('a socket that is gone is forgotten, and holds nothing back any more', async () => {
    const { it } = awaited();
    it.add('/', 1, () => new Promise(() => undefined));
    it.add('/', 2, () => ['never']);
    it.add('/app', 2, () => ['other']);
    const came = it.came('/', 1, []);
    it.forget('/app');
    it.add('/app', 3, () => ['other']);
    it.forget('/');
    expect(await came).toBeNull();
    expect([it.size, it.has('/app', 3)]).toEqual([1, true]);
  });

  test('threat: a browser whose events are never acknowledged; the oldest are forgotten', () => {
    const { it, bounds } = awaited();
    for (let id = 0; id <= mostAwaited; id++) it.add('/', id, () => undefined);
    expect([it.size, it.has('/', 0), it.has('/', 1), it.has('/', mostAwaited)]).toEqual([
      mostAwaited,
      false,
      true,
      true,
    ]);
    expect(bounds).toEqual(['awaited-acks']);
  });
});
