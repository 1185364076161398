// What an error of Redis or of ioredis means: was the command executed, can Redis be reached, is what stands there unfit. Knows nothing of
// what was asked.
import { RedisAway, RedisRefused } from './redis.js';

/**
 * Redis answers these where it did not execute the command, and can't now: it loads its file, is full, was made a replica, has no
 * majority. `CROSSSLOT` and the like are faults of ours and not among them.
 */
const NOT_NOW =
  /^(LOADING|CLUSTERDOWN|MASTERDOWN|READONLY|OOM|MISCONF|NOREPLICAS|BUSY|TRYAGAIN|MOVED|ASK|NOAUTH|WRONGPASS|NOPERM|ERR max number of clients)\b/;
/** The same, of a script that came to a command which Redis does not execute now (before Redis 7 in other words). */
const NOT_NOW_IN_SCRIPT = /(?:^|[:'] ?-?)(OOM|READONLY|MISCONF|NOREPLICAS) /;
/** What ioredis says of a command that it did not write to a connection. */
const NOT_SENT = /enableOfflineQueue options is false|^Failed to refresh slots cache/;
/** What can be said of a command that may have got to Redis. */
const SAID: readonly (readonly [RegExp, string])[] = [
  [/^Command timed out/, 'no answer within 1 s'],
  [/^(Connection is closed|Command aborted|Reached the max retries|Socket timeout)/, 'the connection broke'],
];

/** RedisAway or RedisRefused; anything else is a fault of ours and stays as it is. `said`: how a reason is put for operators. */
export function meaningOf(error: unknown, said: (message: string) => string = plain): unknown {
  if (!(error instanceof Error) || error instanceof RedisAway || error instanceof RedisRefused) return error;
  const { message } = error;
  if (NOT_SENT.test(message)) return new RedisAway('not connected', false);
  if (NOT_NOW.test(message) || NOT_NOW_IN_SCRIPT.test(message)) return new RedisAway(said(message), false);
  const known = SAID.find(([pattern]) => pattern.test(message));
  if (known) return new RedisAway(known[1], true);
  // A reply of Redis: it was executed as far as it went.
  if (error.name === 'ReplyError') return new RedisRefused(plain(message));
  return new RedisAway(said(message), true);
}

/** Of a connection that ended, or is none: what ended it, or keeps it from being one, was said before. */
export const followsFrom = (message: string): boolean =>
  NOT_SENT.test(message) || SAID.some(([pattern]) => pattern.test(message)) || FOLLOWS.test(message);
/** The second, where the last Sentinel was asked before: the first is asked next. */
const FOLLOWS = /already connecting|^All sentinels are unreachable(?!.*Last error)/;

/** One short line, without the arguments that Redis repeats where it does not know a command. */
export const plain = (message: string): string =>
  (message.split('\n')[0] ?? '').replace(/,? with args beginning with.*/, '').slice(0, 200);
