// Answers that are late. Those that only look it, since the process was held up: `connection.test.ts`.
import { expect, it, vi } from 'vitest';
import { deadlines, SILENCE, TIMEOUT } from './deadlines.js';

it('fails an answer that does not come, and tells once of a connection that says nothing', async () => {
  const silent = vi.fn();
  const answers = deadlines(silent);
  const started = performance.now();
  await expect(answers.within(new Promise(() => undefined))).rejects.toThrow('Command timed out');
  expect(performance.now() - started).toBeGreaterThanOrEqual(TIMEOUT - 5);
  expect(silent).not.toHaveBeenCalled();
  await vi.waitFor(() => expect(silent).toHaveBeenCalledTimes(1), { timeout: SILENCE });
});

it('passes answers and errors on, and tells nothing where all is answered', async () => {
  const silent = vi.fn();
  const answers = deadlines(silent);
  expect(await answers.within(Promise.resolve(1))).toBe(1);
  await expect(answers.within(Promise.reject(new Error('no')))).rejects.toThrow('no');
  await new Promise((resolve) => setTimeout(resolve, 100));
  expect(silent).not.toHaveBeenCalled();
});
