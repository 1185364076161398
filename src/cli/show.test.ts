import { describe, expect, test } from 'vitest';
import { graph, harmless, json, millis, rate, share, span, style, table, time } from './show.js';

describe('threat: a caller names a conversation so that the operator’s terminal obeys it', () => {
  const hostile = 'a\x1b[2J\x1b]0;title\x07\u009b31m\r\nb\u202e\u2066c';
  test('as text', () => {
    expect(harmless(hostile)).toBe('a\\u001b[2J\\u001b]0;title\\u0007\\u009b31m\\u000d\\u000ab\\u202e\\u2066c');
  });
  test('as JSON, which stays the same value', () => {
    for (const indent of [0, 2]) {
      const text = json({ id: hostile, list: [hostile] }, indent);
      expect(text.replaceAll('\n', '')).not.toMatch(/[\p{Cc}\p{Cf}]/u);
      expect(JSON.parse(text)).toEqual({ id: hostile, list: [hostile] });
    }
  });
});

test('a table is as wide as its cells, wide characters and colours included', () => {
  const { red } = style(true);
  const shown = table(
    ['A', 'BB', 'C'],
    [
      ['x', '日本', '1'],
      [red('red'), 'q', ''],
      ['', '', '3'],
    ],
    style(false),
  );
  expect(shown.split('\n')).toEqual(['A    BB    C', 'x    日本  1', '\x1b[31mred\x1b[39m  q', '           3', '']);
});

test('no colours where there is no terminal', () => {
  const { bold, dim, red, green, yellow, cyan } = style(false);
  for (const colour of [bold, dim, red, green, yellow, cyan]) expect(colour('x')).toBe('x');
});

test.each([
  [0, '0s'],
  [-5, '0s'],
  [59_400, '59s'],
  [60_000, '1m00s'],
  [61_000, '1m01s'],
  [3_599_000, '59m59s'],
  [3_600_000, '1h00m'],
  [86_399_000, '23h59m'],
  [183_600_000, '2d03h'],
])('a span of %d ms is %s', (ms, text) => {
  expect(span(ms)).toBe(text);
});

test('figures', () => {
  expect([0, 0.04, 0.8, 12.34, 240.6].map(rate)).toEqual(['0', '<0.1', '0.8', '12.3', '241']);
  expect([null, 0, 0.84, 9.99, 12.6, 1500].map(millis)).toEqual(['-', '0ms', '0.8ms', '10ms', '13ms', '1500ms']);
  expect([0, 0.01, 0.0025, 1].map(share)).toEqual(['0%', '1%', '0.25%', '100%']);
  expect(time('2026-11-30T16:22:14.123Z')).toBe('2026-11-30 16:22:14Z');
  expect(time(0)).toBe('1970-01-01 00:00:00Z');
  expect(time('\x1b[2J')).toBe('\\u001b[2J');
});

test('a graph is as high as its highest value, and shows that there was little', () => {
  expect(graph([], 5)).toBe('');
  expect(graph([0, 0], 5)).toBe('  ');
  expect(graph([9, 0, 1, 50, 100], 4)).toBe(' ▂▅█');
});
