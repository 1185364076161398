// Where Redis is, as operators write it: one server, several Sentinels that know it, or the nodes of a Cluster. Knows nothing of how it
// is reached.

export interface RedisNode {
  readonly host: string;
  readonly port: number;
}

interface Common {
  readonly username: string | undefined;
  readonly password: string | undefined;
  readonly tls: boolean;
}

export type RedisPlace =
  | (Common & { readonly kind: 'single'; readonly nodes: readonly [RedisNode]; readonly db: number })
  | (Common & {
      readonly kind: 'sentinel';
      readonly nodes: readonly RedisNode[];
      /** What the Sentinels call the master. */
      readonly master: string;
      readonly db: number;
    })
  | (Common & { readonly kind: 'cluster'; readonly nodes: readonly RedisNode[] });

/** The message is the second half of a line that starts with the setting's name; it never holds the password. */
export class NoRedisPlace extends Error {}

const KINDS = { redis: 'single', 'redis-sentinel': 'sentinel', 'redis-cluster': 'cluster' } as const;
const EXAMPLES =
  'write redis://HOST:PORT, redis-sentinel://HOST:PORT,HOST:PORT/MASTER or redis-cluster://HOST:PORT,HOST:PORT';

/**
 * `redis://user:password@host:port/db`, `redis-sentinel://…@host:port,host:port/master/db`, `redis-cluster://…@host:port,host:port`;
 * `rediss` in the place of `redis` is over TLS. User and password are percent-encoded; ports are 6379, or 26379 of a Sentinel, where
 * they aren't given. Hosts may be given as several texts.
 * @throws NoRedisPlace
 */
export function redisPlace(texts: readonly string[]): RedisPlace {
  const [first = '', ...more] = texts;
  const scheme = /^(rediss?)(-sentinel|-cluster)?:\/\//.exec(first);
  if (!scheme) throw new NoRedisPlace(`is no address of a Redis; ${EXAMPLES}`);
  const kind = KINDS[`redis${scheme[2] ?? ''}` as keyof typeof KINDS];
  const start = scheme[0];
  // The scheme may be said again with each host.
  const rest = [first, ...more].map((text) => (text.startsWith(start) ? text.slice(start.length) : text)).join(',');
  const match = /^(?:([^@/]*)@)?([^@/?#]+)((?:\/[^/?#]*)*)$/.exec(rest);
  if (!match) throw new NoRedisPlace(`is no address of a Redis (${parts(rest)}); ${EXAMPLES}`);
  const [, credentials, hosts = '', path = ''] = match;
  const nodes = hosts.split(',').map((host) => node(host, kind === 'sentinel' ? 26_379 : 6379));
  const names = path.split('/').slice(1);
  const common = { ...user(credentials), tls: scheme[1] === 'rediss' };
  if (kind === 'cluster') {
    if (names.some((name) => name !== '' && name !== '0'))
      throw new NoRedisPlace('names a database, which a Redis Cluster has none of; leave it out');
    return { kind, ...common, nodes };
  }
  if (kind === 'sentinel') {
    const [master = '', db] = names;
    if (master === '' || names.length > 2)
      throw new NoRedisPlace(
        'does not say what the Sentinels call the master; write redis-sentinel://HOST:PORT/MASTER',
      );
    return { kind, ...common, nodes, master: decoded(master), db: database(db) };
  }
  const [only, ...others] = nodes;
  if (!only || others.length > 0)
    throw new NoRedisPlace('names several servers; write redis-sentinel:// or redis-cluster:// in front of them');
  if (names.length > 1) throw new NoRedisPlace(`has a path that is no database; write redis://HOST:PORT/0`);
  return { kind, ...common, nodes: [only], db: database(names[0]) };
}

/** For operators: without user and password. */
export function shownPlace(place: RedisPlace): string {
  const scheme = `${place.tls ? 'rediss' : 'redis'}${place.kind === 'single' ? '' : `-${place.kind}`}`;
  const hosts = place.nodes.map(({ host, port }) => `${host.includes(':') ? `[${host}]` : host}:${port}`).join(',');
  const path = [
    ...(place.kind === 'sentinel' ? [place.master] : []),
    ...(place.kind !== 'cluster' && place.db > 0 ? [String(place.db)] : []),
  ];
  return `${scheme}://${[hosts, ...path].join('/')}`;
}

function node(text: string, port: number): RedisNode {
  const match = /^(?:\[([0-9a-fA-F:.]+)\]|([^\s:[\]]+))(?::(\d{1,5}))?$/.exec(text);
  const host = match?.[1] ?? match?.[2];
  const given = match?.[3] === undefined ? port : Number(match[3]);
  if (host === undefined || given < 1 || given > 65_535)
    throw new NoRedisPlace(`has a part that is no host:port; ${EXAMPLES}`);
  return { host, port: given };
}

/** `user:password`, `:password`, and `password` alone, as redis-cli takes them. */
function user(credentials: string | undefined): Pick<Common, 'username' | 'password'> {
  if (!credentials) return { username: undefined, password: undefined };
  const colon = credentials.indexOf(':');
  const name = colon < 0 ? '' : credentials.slice(0, colon);
  return {
    username: name === '' ? undefined : decoded(name),
    password: decoded(credentials.slice(colon + 1)),
  };
}

function database(text = ''): number {
  if (text !== '' && !/^\d{1,4}$/.test(text))
    throw new NoRedisPlace('names a database that is no number; write it as redis://HOST:PORT/0');
  return Number(text || 0);
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw new NoRedisPlace('has a user, password or name that is not percent-encoded; write %25 for %');
  }
}

/** What can be said of a text that may hold a password. */
const parts = (text: string): string => (text.includes('@') ? 'write @ and / in a password as %40 and %2F' : 'no host');
