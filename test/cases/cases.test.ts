// docs/cases.md says which test holds which case; this holds it to that.
import { existsSync, readFileSync } from 'node:fs';
import { expect, test } from 'vitest';

const place = (file: string) => new URL(`../${file}.test.ts`, import.meta.url);
const rows = readFileSync(new URL('../../docs/cases.md', import.meta.url), 'utf8')
  .split('\n')
  .filter((line) => /^\| [^|]+ \|.*`cases\/|^\| \S+ \|.*\| none \|/.test(line))
  .map((line) => line.split('|').map((cell) => cell.trim()))
  .map((cells) => ({
    cells,
    files: cells.flatMap((cell) => [...cell.matchAll(/`(cases\/[\w-]+)`/g)].map((m) => m[1]!)),
  }));

test('every file of the table exists', () => {
  expect(rows.length).toBeGreaterThanOrEqual(26);
  const missing = rows.flatMap(({ files }) => files).filter((file) => !existsSync(place(file)));
  expect(missing).toEqual([]);
});

const named = rows.filter(({ cells }) => /^[\w-]+$/.test(cells[1]!) && cells.length > 5);

test('the table names every case', () => {
  expect(named.map(({ cells }) => cells[1])).toEqual([
    'refused-upgrade-reset',
    'unknown-sid-upgrade',
    'connect-kill-1000',
    'first-request-is-ws',
    'gzip-emoji-poll',
    'plain-get-as-websocket',
    'idle-upgrade',
    'late-ack-retries',
    'bare-binary',
    'forged-connect-error',
    'binary-ack',
    'namespace-ack',
    'one-cors-header',
    'h2c',
    'octet-stream-post',
    'stalled-reader',
    'idle-three-pings',
    'origin-scheme',
    'both-offer',
    'flip-in-call',
    'dead-instance',
  ]);
});

test.each(named.map(({ cells, files }) => [cells[1]!, files] as const))('%s has its tests', (name, files) => {
  // At the beginning of a title, or of a title's part in a table.
  const title = new RegExp(`['"\`]${name}\\b`);
  const without = files.filter((file) => !title.test(readFileSync(place(file), 'utf8')));
  expect(without).toEqual([]);
  if (files.length === 0) expect(name).toBe('dead-instance');
});
