import { expect, it } from 'vitest';
import { manualClock } from '../base/clock.js';
import { rememberFor, ToldCalls } from './told-calls.js';

it('knows the last call of each conversation until it hears of its end, or for five minutes', () => {
  const clock = manualClock();
  const heard: string[] = [];
  const told = new ToldCalls(clock, (key) => heard.push(key));
  told.add('a', 'one');
  told.add('b', 'two');
  told.ended('a', 'another');
  expect([told.last('a'), told.last('b'), told.last('c')]).toEqual(['one', 'two', null]);
  told.ended('a', 'one');
  expect(told.last('a')).toBeNull();
  clock.advance(rememberFor - 1);
  told.add('c', 'three');
  expect(told.last('b')).toBe('two');
  clock.advance(1);
  expect([told.last('b'), told.last('c')]).toEqual([null, 'three']);
  expect(told.size).toBe(2);
  told.sweep();
  expect(told.size).toBe(1);
  expect(heard).toEqual(['a', 'b', 'c']);
});

it('forgets the oldest over its bound', () => {
  const told = new ToldCalls(manualClock());
  for (let n = 0; n <= 50_000; n++) told.add(`${n}`, 'call');
  expect([told.size, told.last('0'), told.last('1')]).toEqual([50_000, null, 'call']);
});
