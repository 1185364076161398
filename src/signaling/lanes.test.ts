import { expect, it } from 'vitest';
import { Lanes } from './lanes.js';

/** A task that is over when the test says so. */
function slow() {
  let end!: () => void;
  const over = new Promise<void>((resolve) => (end = resolve));
  return { task: () => over, end };
}

it('threat: one browser holds as much as it likes while the legacy thinks', async () => {
  const lanes = new Lanes();
  const slows = Array.from({ length: 256 }, slow);
  for (const [i, { task }] of slows.entries()) expect(lanes.run(1, `${i}`, 10, task)).toBe(true);
  expect(lanes.run(1, 'one conversation more', 10, () => undefined)).toBe(false);
  expect(lanes.run(1, '0', 10, () => undefined)).toBe(true);
  expect(lanes.run(1, '0', 5_000_000, () => undefined)).toBe(false);
  expect(lanes.run(2, "another browser's", 10, () => undefined)).toBe(true);
  for (const { end } of slows) end();
  await lanes.idle(1);
  expect(lanes.idle(1)).toBe(null);
  expect(lanes.run(1, 'one conversation more', 5_000_000, () => undefined)).toBe(true);
});

it('what runs counts as well as what waits, until it is over', async () => {
  const lanes = new Lanes();
  const large = slow();
  expect(lanes.run(1, 'a', 4_000_000, large.task)).toBe(true);
  expect(lanes.run(1, 'b', 400_000, () => undefined)).toBe(false);
  large.end();
  await lanes.idle(1);
  expect(lanes.run(1, 'b', 400_000, () => undefined)).toBe(true);
});

it('tasks of one lane run in their order, and the lane is over after the last', async () => {
  const lanes = new Lanes();
  const ran: string[] = [];
  const [first, second] = [slow(), slow()];
  lanes.run(1, 'a', 1, first.task);
  for (const [name, task] of [
    ['sync', () => undefined],
    ['slow', second.task],
    ['last', () => undefined],
  ] as const) {
    lanes.run(1, 'a', 1, () => {
      ran.push(name);
      return task();
    });
  }
  const over = lanes.idle(1)?.then(() => ran.push('over'));
  first.end();
  await expect.poll(() => ran).toEqual(['sync', 'slow']);
  second.end();
  await over;
  expect(ran).toEqual(['sync', 'slow', 'last', 'over']);
});

it('a lane is busy while something that was taken for it is not run yet', () => {
  const lanes = new Lanes();
  const first = lanes.expect(1, 'a');
  const second = lanes.expect(1, 'a');
  expect([lanes.busy(1, 'a'), lanes.busy(1, 'b'), lanes.busy(2, 'a')]).toEqual([true, false, false]);
  first();
  expect(lanes.busy(1, 'a')).toBe(true);
  second();
  expect(lanes.busy(1, 'a')).toBe(false);
  const late = lanes.expect(1, 'a');
  lanes.disconnected(1);
  expect(lanes.busy(1, 'a')).toBe(false);
  lanes.expect(1, 'a');
  late();
  expect(lanes.busy(1, 'a')).toBe(true);
});
