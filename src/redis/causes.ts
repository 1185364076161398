// Why a Redis can't be used, for operators: in our words, and what to do about it. ioredis and Redis say it in theirs, which name neither
// the setting nor the remedy, and ioredis with a number in it that is another each time. Knows nothing of commands.
import type { RedisPlace } from './place.js';
import { plain } from './replies.js';

export interface Where {
  readonly place: RedisPlace;
  /** It was reached before, by what the address says: nothing of that is wrong. */
  readonly known: boolean;
}
type Cause = readonly [pattern: RegExp, said: (where: Where, message: string) => string | undefined];

const of = (kind: RedisPlace['kind'], said: string) => (where: Where) => (where.place.kind === kind ? said : undefined);
const maybeTls = ({ place, known }: Where, message: string) => {
  if (known) return undefined;
  return place.tls
    ? `${message}; if it does not speak TLS there, the address begins with redis instead of rediss`
    : `${message}; if it speaks TLS there, the address begins with rediss instead of redis`;
};

const CAUSES: readonly Cause[] = [
  [
    /DB index is out of range|invalid DB index|SELECT is not allowed/,
    ({ place }, message) => {
      const db = 'db' in place ? place.db : 0;
      return `it has no database ${db} (${message}); name one that it has, or keep deployments apart by --redis-prefix`;
    },
  ],
  [/^Protocol error/, (where) => maybeTls(where, 'what answers there is no Redis')],
  [
    /wrong version number|before secure TLS connection was established|EPROTO/,
    (where) => maybeTls(where, 'TLS can not be begun'),
  ],
  [/E(TIMEDOUT|CONNRESET)/, maybeTls],
  [
    /cluster support disabled/i,
    () => 'it is a single server and no Redis Cluster; write redis://HOST:PORT, or redis-sentinel://',
  ],
  [/^(None of startup nodes|timeout$)/, (where) => maybeTls(where, 'no node of the Cluster answers')],
  [/^(MOVED|CLUSTERDOWN) /, of('single', 'it is a node of a Redis Cluster; write redis-cluster://HOST:PORT')],
  [
    /unknown command .?set\b/i,
    of('single', 'it is a Sentinel, which keeps nothing itself; write redis-sentinel://HOST:PORT/MASTER'),
  ],
  [
    /^NOPERM/,
    (_, message) =>
      `${message}; its user needs rights to the keys of --redis-prefix and to commands, docs/scale-out.md has the ACL line`,
  ],
];

/** What Sentinels said, or that none did. */
const SENTINEL_CAUSES: readonly Cause[] = [
  [
    /No such master with that name/,
    ({ place }) =>
      `the Sentinels know no master "${'master' in place ? place.master : ''}"; "redis-cli -p 26379 SENTINEL MASTERS" has the names`,
  ],
  [/WRONGPASS/, () => 'the Sentinels ask for a password, and it is not the one in the address'],
  [/NOAUTH/, () => 'the Sentinels ask for a password; write redis-sentinel://:PASSWORD@HOST:PORT/MASTER'],
  [/unknown command/, () => 'it is no Sentinel; write redis://HOST:PORT for a server'],
  [/Command timed out/, (where) => maybeTls(where, 'no Sentinel answers')],
];
const ABOUT_SENTINELS = /^All sentinels are unreachable/;

/** One line, without a password and the same each time. */
export function causeOf(message: string, where: Where): string {
  if (ABOUT_SENTINELS.test(message)) return told(message, SENTINEL_CAUSES, where) ?? 'no Sentinel answers';
  return told(message, CAUSES, where) ?? plain(message);
}

function told(message: string, causes: readonly Cause[], where: Where): string | undefined {
  for (const [pattern, said] of causes) {
    const cause = pattern.test(message) ? said(where, plain(message)) : undefined;
    if (cause !== undefined) return cause;
  }
  return undefined;
}
