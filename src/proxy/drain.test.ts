import { once } from 'node:events';
import { describe, expect, it } from 'vitest';
import { recordedSignals } from '../telemetry/signals.js';
import { Drain } from './drain.js';
import type { Closing } from './listener.js';

/** A listener with `open` connections, which closes them when the test says so. */
function world(open: number, delayMs = 0) {
  const signals = recordedSignals();
  const steps: string[] = [];
  const closings: { readonly closing: Closing; readonly done: () => void }[] = [];
  const asked = new EventTarget();
  const listener = {
    open,
    refuseNew: (refuse: boolean) => void steps.push(refuse ? 'refuse' : 'take'),
    closeConnections: (ms: number, closing: Closing = {}) => {
      steps.push(`close over ${ms}`);
      return new Promise<void>((resolve) => {
        closing.signal?.addEventListener('abort', () => resolve());
        closings.push({
          closing,
          done: () => {
            listener.open = 0;
            resolve();
          },
        });
        asked.dispatchEvent(new Event('closing'));
      });
    },
  };
  let changes = 0;
  const drain = new Drain({
    listener,
    delayMs,
    overMs: 10_000,
    changed: () => changes++,
    signals,
  });
  return {
    drain,
    listener,
    steps,
    closings,
    closing: () => (closings.length > 0 ? Promise.resolve() : once(asked, 'closing')),
    changes: () => changes,
    drained: () => signals.events.filter(({ what }) => what === 'drained').map(({ args }) => args),
  };
}

describe('a drain', () => {
  it('is shown at once, closes after its delay, and says when the instance is empty', async () => {
    const at = world(3, 20);
    at.drain.begin();
    expect(at.drain.state()).toEqual({ draining: true, left: 3 });
    expect(at.steps).toEqual([]);
    expect(at.changes()).toBe(1);
    await at.closing();
    expect(at.steps).toEqual(['close over 10000']);
    at.closings[0]?.done();
    await expect.poll(at.drained).toEqual([
      ['begun', 3],
      ['done', 0],
    ]);
    expect(at.drain.state()).toEqual({ draining: true, left: 0 });
    at.drain.cancel();
  });

  it('that is begun again goes on as it was', async () => {
    const at = world(1);
    at.drain.begin();
    at.drain.begin();
    await at.closing();
    expect(at.closings).toHaveLength(1);
    expect(at.drained()).toEqual([['begun', 1]]);
    at.drain.cancel();
  });

  it('can be taken back within its delay and while it closes, and begun anew', async () => {
    const at = world(2, 60_000);
    at.drain.begin();
    at.drain.cancel();
    expect(at.drain.state()).toEqual({ draining: false, left: 2 });
    expect(at.steps).toEqual(['take']);
    at.drain.cancel();
    expect(at.drained()).toEqual([
      ['begun', 2],
      ['cancelled', 2],
    ]);

    const other = world(2);
    other.drain.begin();
    await other.closing();
    other.drain.cancel();
    expect(other.closings[0]?.closing.signal?.aborted).toBe(true);
    other.drain.begin();
    await expect.poll(() => other.closings.length).toBe(2);
    expect(other.drained().map(([what]) => what)).toEqual(['begun', 'cancelled', 'begun']);
    other.drain.cancel();
  });

  it('closes what came in while it began', async () => {
    const at = world(1);
    at.drain.begin();
    await at.closing();
    at.closings[0]?.done();
    at.listener.open = 1;
    await expect.poll(() => at.steps, { timeout: 5_000 }).toEqual(['close over 10000', 'close over 0']);
    at.drain.cancel();
  });
});

describe('the end of the process', () => {
  it('waits until no connection is left, and can not be taken back', async () => {
    const at = world(2);
    let over = false;
    const finished = at.drain.finish().then(() => (over = true));
    await at.closing();
    at.drain.cancel();
    expect(at.drain.state().draining).toBe(true);
    expect(over).toBe(false);
    at.closings[0]?.done();
    await finished;
    expect(at.drained()).toEqual([
      ['begun', 2],
      ['done', 0],
    ]);
  });

  it('waits for a drain that is under way, and not again for one that is over', async () => {
    const at = world(2);
    at.drain.begin();
    await at.closing();
    const finished = at.drain.finish();
    at.closings[0]?.done();
    await finished;
    expect(at.closings).toHaveLength(1);
  });
});
