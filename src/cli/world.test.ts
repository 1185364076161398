import { PassThrough } from 'node:stream';
import { expect, test } from 'vitest';
import { askOn } from './world.js';

test.each([
  ['an answer', 'a calm hour\n', 'a calm hour'],
  ['an empty one', '\n', ''],
  ['of several lines the first', 'one\ntwo\n', 'one'],
])('%s', async (_name, typed, answer) => {
  const [input, output] = [new PassThrough(), new PassThrough()];
  const asked = askOn(input, output, 'reason: ');
  input.write(typed);
  expect(await asked).toBe(answer);
  expect(String(output.read())).toBe('reason: ');
});

test('no answer, and the next line begins on its own', async () => {
  const [input, output] = [new PassThrough(), new PassThrough()];
  const asked = askOn(input, output, 'reason: ');
  input.end();
  expect(await asked).toBeUndefined();
  expect(String(output.read())).toBe('reason: \n');
});
