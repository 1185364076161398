import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { readFlags, UsageError } from './flags.js';

const directory = mkdtempSync(join(tmpdir(), 'legacy-flags-'));
afterAll(() => rmSync(directory, { recursive: true }));

function file(name: string, content: string): string {
  const path = join(directory, name);
  writeFileSync(path, content);
  return path;
}

const ignore = () => undefined;

describe('the flags of legacy-stub', () => {
  it('has defaults for everything', () => {
    expect(readFlags([], ignore)).toMatchObject({
      host: '127.0.0.1',
      port: 4000,
      tickets: true,
      membership: 'memory',
      membershipLatencyMs: 0,
      rejoinTimeoutMs: 60_000,
      reapIntervalMs: 15_000,
      ticketTtlMs: 300_000,
      tokenTtlMs: 43_200_000,
    });
  });

  it('reads each of them', () => {
    const line =
      '--listen [::1]:0 --token-ttl 2s --ticket-ttl 5m --no-tickets --membership postgres://db/x --membership-latency 5ms ' +
      '--rejoin-timeout 1.5s --reap-interval 100ms --recovery --allow-eio3 --cors-origin http://a.example --cookie ' +
      '--ping-interval 300ms --ping-timeout 1s --max-payload 5000';
    expect(readFlags(line.split(' '), ignore)).toMatchObject({
      host: '::1',
      port: 0,
      tokenTtlMs: 2_000,
      ticketTtlMs: 300_000,
      tickets: false,
      membership: 'postgres://db/x',
      membershipLatencyMs: 5,
      rejoinTimeoutMs: 1_500,
      reapIntervalMs: 100,
      recovery: true,
      allowEio3: true,
      corsOrigin: 'http://a.example',
      cookie: true,
      pingIntervalMs: 300,
      pingTimeoutMs: 1_000,
      maxPayload: 5_000,
    });
  });

  it('takes a secret without the newline that an editor leaves', () => {
    const options = readFlags(['--jwt-secret-file', file('secret', 'abc def\n')], ignore);
    expect(options?.jwtSecret).toEqual(Buffer.from('abc def'));
  });

  it.each([
    [['--wrong'], "unknown option '--wrong'"],
    [['surplus'], 'too many arguments'],
    [['--listen', 'nowhere'], 'HOST:PORT'],
    [['--listen', '127.0.0.1:70000'], 'HOST:PORT'],
    [['--rejoin-timeout', '5x'], 'expected a time'],
    [['--rejoin-timeout', '9999999h'], 'expected a time'],
    [['--reap-interval', '0ms'], 'at least 1ms'],
    [['--max-payload', '-1'], 'number of bytes'],
    [['--jwt-secret-file', '/nonexistent/secret'], 'ENOENT'],
    [['--jwt-secret-file', file('empty', '\n')], 'is empty'],
  ])('refuses %j in one line', (args, message) => {
    const read = () => readFlags(args, ignore);
    expect(read).toThrow(UsageError);
    expect(read).toThrow(message);
    expect(read).toThrow(/^[^\n]+$/);
  });

  it('shows help', () => {
    let shown = '';
    expect(readFlags(['--help'], (text) => (shown += text))).toBeUndefined();
    expect(shown).toContain('--rejoin-timeout <time>');
  });
});
