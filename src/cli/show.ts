// Tables, colours, ages and figures as text. What comes from outside (conversation ids, names, reasons) is made harmless
// first, since a terminal obeys control characters. Knows nothing of where a value comes from.
import Table from 'cli-table3';

/** Colours where the output is a terminal, plain text otherwise. */
export interface Style {
  bold(text: string): string;
  dim(text: string): string;
  red(text: string): string;
  green(text: string): string;
  yellow(text: string): string;
  cyan(text: string): string;
}

export function style(colors: boolean): Style {
  const sgr = (on: number, off: number) => (colors ? (text: string) => `\x1b[${on}m${text}\x1b[${off}m` : same);
  return {
    bold: sgr(1, 22),
    dim: sgr(2, 22),
    red: sgr(31, 39),
    green: sgr(32, 39),
    yellow: sgr(33, 39),
    cyan: sgr(36, 39),
  };
}
const same = (text: string): string => text;

/** Control characters, and marks that turn the direction of what follows: none of them is part of a readable name. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what must not reach a terminal
const UNSAFE = /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g;
const escaped = (text: string): string => `\\u${text.charCodeAt(0).toString(16).padStart(4, '0')}`;

/** One line that a terminal shows and doesn't obey. */
export const harmless = (text: string): string => text.replace(UNSAFE, escaped);

/** JSON in which nothing is left that a terminal obeys; `indent` 0: one line. */
export const json = (value: unknown, indent = 2): string =>
  JSON.stringify(value, null, indent).replace(UNSAFE, (text) => (text === '\n' ? text : escaped(text)));

/** Columns under a head, without lines around them; a row ends where its last cell does. Cells are harmless already. */
export function table(head: readonly string[], rows: readonly (readonly string[])[], { bold }: Style): string {
  const shown = new Table({ chars: PLAIN, style: { head: [], border: [], 'padding-left': 0, 'padding-right': 0 } });
  shown.push(
    head.map((text) => bold(text)),
    ...rows.map((row) => [...row]),
  );
  return `${shown
    .toString()
    .split('\n')
    .map((line) => line.trimEnd())
    .join('\n')}\n`;
}
const PLAIN = {
  ...Object.fromEntries(
    ['top', 'bottom', 'left', 'mid', 'right'].flatMap((side) => [side, `${side}-mid`].map((name) => [name, ''])),
  ),
  ...Object.fromEntries(['top-left', 'top-right', 'bottom-left', 'bottom-right'].map((name) => [name, ''])),
  middle: '  ',
};

/** A time span of milliseconds: `45s`, `12m`, `3h05m`, `2d04h`. */
export function span(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1000));
  const two = (value: number) => String(value).padStart(2, '0');
  if (seconds < 60) return `${seconds}s`;
  if (seconds < 3_600) return `${Math.floor(seconds / 60)}m${two(seconds % 60)}s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 24 * 60) return `${Math.floor(minutes / 60)}h${two(minutes % 60)}m`;
  return `${Math.floor(minutes / 1440)}d${two(Math.floor((minutes % 1440) / 60))}h`;
}

/** `2026-11-30 16:22:14Z` from ISO 8601 or milliseconds since the epoch. */
export function time(at: string | number): string {
  const date = new Date(at);
  if (Number.isNaN(date.getTime())) return harmless(String(at));
  return `${date.toISOString().slice(0, 19).replace('T', ' ')}Z`;
}

/** `0`, `<0.1`, `0.4`, `12.3`, `240`. */
export function rate(perSecond: number): string {
  if (perSecond === 0) return '0';
  if (perSecond < 0.05) return '<0.1';
  return perSecond < 100 ? perSecond.toFixed(1) : String(Math.round(perSecond));
}

/** `-` where nothing was measured. */
export function millis(ms: number | null): string {
  if (ms === null) return '-';
  return ms < 10 ? `${Number(ms.toFixed(1))}ms` : `${Math.round(ms)}ms`;
}

/** A share of 0 to 1 as `2.5%`. */
export const share = (part: number): string => `${Number((part * 100).toFixed(2))}%`;

/** `1 call`, `2 calls`. */
export const counted = (count: number, one: string): string => `${count} ${one}${count === 1 ? '' : 's'}`;

const BARS = '▁▂▃▄▅▆▇█';
/** The newest `width` values, oldest first, each a bar as high as its part of the highest. */
export function graph(values: readonly number[], width: number): string {
  const shown = values.slice(-width);
  const most = Math.max(...shown, 0);
  return shown.map((value) => (value <= 0 ? ' ' : BARS[Math.ceil((value / most) * 7)])).join('');
}
