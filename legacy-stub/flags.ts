// The flags of the command `legacy-stub`: a command line in, checked options out.
// Knows nothing of what they do.
import { readFileSync } from 'node:fs';
import { Command, CommanderError, InvalidArgumentError } from 'commander';
import type { LegacyOptions } from './server.js';

/** A command line that can't be run: the message is one line, the process should end with 2. */
export class UsageError extends Error {}

interface Flags {
  readonly listen: { host: string; port: number };
  readonly jwtSecretFile?: string;
  readonly tokenTtl: number;
  readonly ticketTtl: number;
  readonly tickets: boolean;
  readonly membership: string;
  readonly membershipLatency: number;
  readonly rejoinTimeout: number;
  readonly reapInterval: number;
  readonly recovery?: boolean;
  readonly allowEio3?: boolean;
  readonly corsOrigin?: string;
  readonly cookie?: boolean;
  readonly pingInterval?: number;
  readonly pingTimeout?: number;
  readonly maxPayload?: number;
}

/**
 * Reads the arguments (without node and script). Throws UsageError for a wrong one; `undefined` where `--help` was asked
 * for, whose text then went to `write`.
 */
export function readFlags(args: readonly string[], write: (text: string) => void): LegacyOptions | undefined {
  let flags: Flags;
  try {
    flags = commandLine(write).parse(args, { from: 'user' }).opts<Flags>();
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    if (error.exitCode === 0) return undefined;
    throw new UsageError(error.message.replace(/^error: /, ''));
  }
  const { listen, jwtSecretFile, ...same } = flags;
  return {
    ...same,
    ...listen,
    jwtSecret: jwtSecretFile === undefined ? undefined : secret(jwtSecretFile),
    tokenTtlMs: flags.tokenTtl,
    ticketTtlMs: flags.ticketTtl,
    membershipLatencyMs: flags.membershipLatency,
    rejoinTimeoutMs: flags.rejoinTimeout,
    reapIntervalMs: flags.reapInterval,
    pingIntervalMs: flags.pingInterval,
    pingTimeoutMs: flags.pingTimeout,
  };
}

function commandLine(write: (text: string) => void): Command {
  const command = new Command('legacy-stub')
    .description('A legacy Socket.IO backend to stand in for your own: login, chat, files, group calls and 1:1 calls.')
    .option('--listen <host:port>', 'where to listen; port 0 takes a free one', address, {
      host: '127.0.0.1',
      port: 4000,
    })
    .option('--jwt-secret-file <file>', 'HS256 secret of tokens and tickets (default: random for this run)')
    .option('--token-ttl <time>', 'lifetime of login tokens', duration, 12 * 3_600_000)
    .option('--ticket-ttl <time>', 'lifetime of call tickets', duration, 300_000)
    .option('--no-tickets', 'a legacy without ticket endpoints')
    .option('--membership <store>', 'memory, or a postgres:// URL', 'memory')
    .option('--membership-latency <time>', 'added to every membership lookup', duration, 0)
    .option('--rejoin-timeout <time>', 'how long a call waits for a user who dropped', duration, 60_000)
    .option('--reap-interval <time>', 'how often calls are looked over', positive, 15_000)
    .option('--recovery', 'connection state recovery')
    .option('--allow-eio3', 'accept clients of Socket.IO 2')
    .option('--cors-origin <origin>', 'the origin that may call from elsewhere')
    .option('--cookie', "set Engine.IO's cookie, and a token cookie at login")
    .option('--ping-interval <time>', 'heartbeat interval', positive)
    .option('--ping-timeout <time>', 'heartbeat timeout', positive)
    .option('--max-payload <bytes>', 'largest Socket.IO message', bytes)
    .showHelpAfterError(false)
    .allowExcessArguments(false)
    .exitOverride()
    .configureOutput({ writeOut: write, outputError: () => undefined });
  // Defaults of times are shown as they are typed, not as numbers.
  for (const option of command.options) {
    const { defaultValue } = option;
    if (typeof defaultValue === 'number') option.default(defaultValue, `${defaultValue / 1000}s`);
    else if (typeof defaultValue === 'object') option.default(defaultValue, '127.0.0.1:4000');
  }
  return command;
}

function secret(file: string): Buffer {
  let text: string;
  try {
    text = readFileSync(file, 'utf8').replace(/[\r\n]+$/, ''); // editors end a file with a newline
  } catch (error) {
    throw new UsageError(`--jwt-secret-file: ${(error as Error).message}`);
  }
  if (text === '') throw new UsageError(`--jwt-secret-file: ${file} is empty`);
  return Buffer.from(text);
}

function address(text: string): { host: string; port: number } {
  const match = /^(?:(\[[^\]]+\]|[^:]*):)?(\d{1,5})$/.exec(text);
  const port = Number(match?.[2]);
  if (!match || port > 65_535) throw new InvalidArgumentError('expected HOST:PORT, as in 127.0.0.1:4000');
  return { host: (match[1] || '127.0.0.1').replace(/^\[|\]$/g, ''), port };
}

const UNITS: Record<string, number> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000 };

function duration(text: string): number {
  const match = /^(\d+(?:\.\d+)?)(ms|s|m|h)$/.exec(text);
  const value = Number(match?.[1]) * (UNITS[match?.[2] ?? ''] ?? Number.NaN);
  // Timers of Node hold 31 bits of milliseconds.
  if (!(value < 2 ** 31)) throw new InvalidArgumentError('expected a time, as in 500ms, 15s, 5m or 12h');
  return value;
}

function positive(text: string): number {
  const value = duration(text);
  if (value < 1) throw new InvalidArgumentError('expected at least 1ms');
  return value;
}

function bytes(text: string): number {
  const value = Number(text);
  if (!/^\d+$/.test(text) || value < 1 || !Number.isSafeInteger(value)) {
    throw new InvalidArgumentError('expected a number of bytes');
  }
  return value;
}
