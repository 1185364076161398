// The list of settings: name, how it is shown in --help, default, and what its text must be. The command line, the
// environment and the config file all go by it. Knows nothing of which of them a value came from.
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import * as values from './values.js';

/** `base` is the folder that relative file names start from. */
interface Setting<T, Text> {
  /** Stands for the value in --help. */
  readonly value: string;
  readonly help: string;
  readonly default?: string | undefined;
  /** Given more than once, or with commas. */
  readonly many: Text extends string ? false : true;
  parse(text: Text, base: string): T;
}
type One<T> = Setting<T, string>;
type Many<T> = Setting<T, readonly string[]>;

const one = <T>(value: string, help: string, parse: One<T>['parse'], fallback: string): One<T> => ({
  value,
  help,
  parse,
  default: fallback,
  many: false,
});
/** Undefined where it isn't given. */
const optional = <T>(value: string, help: string, parse: One<T>['parse']): One<T | undefined> => ({
  value,
  help,
  parse,
  many: false,
});
const many = <T>(value: string, help: string, parse: Many<T>['parse'], fallback?: string): Many<T> => ({
  value,
  help,
  parse,
  default: fallback,
  many: true,
});

const optionalMany = <T>(value: string, help: string, parse: Many<T>['parse']): Many<T | undefined> => ({
  value,
  help,
  parse,
  many: true,
});

const duration = (text: string) => values.duration(text);
const durationOrZero = (text: string) => values.duration(text, { zero: true });
const levels = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const;
export type LogLevel = (typeof levels)[number];

export const settings = {
  listen: one('<host:port>', 'where browsers connect', values.address, '127.0.0.1:8080'),
  legacy: many('<url>', 'the legacy backend; repeat it for several', (texts) =>
    texts.map((text) => values.origin(text)),
  ),
  'legacy-ca': optional('<file>', 'certificates (PEM) that the legacy is trusted by', values.certificates),
  'legacy-timeout': one('<time>', 'how long plain HTTP waits for the legacy before a 504', duration, '30s'),
  routes: optional('<file>', 'the route table; without it everything goes to the legacy', readablePath),
  'routes-log': optional(
    '<file>',
    "where each change of routes is kept; by default beside the routes file, with '.history.jsonl' behind its name, or in --redis",
    (text, base) => resolve(base, text),
  ),
  admin: one('<host:port>', 'the admin API, the dashboard, health and readiness', values.address, '127.0.0.1:9900'),
  'admin-tokens': optional(
    '<file>',
    'who may use the admin API: lines "read NAME TOKEN" or "operate NAME TOKEN"; needed where --admin is not loopback',
    readablePath,
  ),
  metrics: one('<host:port/path>', 'metrics for Prometheus', values.addressWithPath, '127.0.0.1:9464/metrics'),
  'socket-path': one('<path>', "the legacy's Socket.IO path", values.socketPath, '/socket.io/'),
  'jwt-secret-file': optional('<file>', 'verify tokens with this shared secret (HS256)', values.secretKey),
  'jwt-public-key-file': optional('<file>', 'or with this public key (PEM, RS256 or ES256)', values.publicKey),
  jwks: optional('<file|url>', 'or with the keys of this JWKS', values.jwks),
  'token-from': many(
    '<place>',
    'where tokens are: auth.NAME, query.NAME, cookie.NAME, header.NAME',
    (texts) => texts.map((text) => values.tokenPlace(text)),
    'auth.token',
  ),
  'user-claim': one('<name>', "the token's claim that holds the user's id", (text) => text, 'sub'),
  'ticket-url': one('<url>', "where the legacy issues a call's ticket", values.urlOrPath, '/api/calls/ticket'),
  'tickets-url': one(
    '<url>',
    'the same for many at once; none: ask one by one',
    (text) => (text === 'none' ? null : values.urlOrPath(text)),
    '/api/calls/tickets',
  ),
  'membership-url': optional(
    '<template>',
    'instead of tickets: a URL with {conversationId} that shows a conversation to its members',
    values.urlTemplate,
  ),
  'membership-participants': one(
    '<pointer>',
    "where in its JSON the participants' ids are",
    values.pointer,
    '/participants/*/id',
  ),
  'membership-token-file': optional('<file>', "ask with this service token instead of the browser's", values.word),
  'membership-cache': one('<time>', 'how long its answers are remembered', durationOrZero, '60s'),
  redis: optionalMany(
    '<url>',
    'several instances share this Redis: redis://, redis-sentinel://HOST:PORT,HOST:PORT/MASTER, redis-cluster://; rediss for TLS',
    values.redis,
  ),
  'redis-ca': optional('<file>', 'certificates (PEM) that it is trusted by', values.certificates),
  'redis-prefix': one('<text>', 'in front of every key, the same on all instances', values.keyPrefix, 'sigfig'),
  instance: optional('<name>', 'what this instance is called; by default the name of its host', values.instanceName),
  'rejoin-timeout': one('<time>', 'how long a call waits for a participant who dropped', duration, '60s'),
  'reap-interval': one('<time>', 'how often calls that waited too long are looked for', duration, '15s'),
  'drain-delay': one('<time>', 'at SIGTERM: not ready, still serving', durationOrZero, '5s'),
  drain: one('<time>', 'then: how long connections are closed over', durationOrZero, '10s'),
  'trust-proxy': many(
    '[ranges]',
    'whose X-Forwarded-Proto and -Host go on as they came: true for every peer, as without sigfig; false for none; or ranges: loopback, 10.0.0.0/8',
    (texts) => values.trustProxy(texts),
    'true',
  ),
  'tls-cert': optional('<file>', 'serve TLS with this certificate (PEM)', values.file),
  'tls-key': optional('<file>', 'and this key (PEM)', values.file),
  'log-level': one('<level>', levels.join(', '), values.oneOf(levels), 'info'),
} as const;

export type SettingName = keyof typeof settings;
type Value<S> = S extends { parse(text: never, base: string): infer T } ? T : never;
/** The parsed values; `legacy` is checked to be there. */
export type Settings = { readonly [Name in SettingName]: Value<(typeof settings)[Name]> };

/** The absolute path of a file that can be read; its content is read, and watched, later. */
function readablePath(text: string, base: string): string {
  const path = resolve(base, text);
  try {
    readFileSync(path);
  } catch (error) {
    throw new values.Unfit(
      `can't read ${path} (${(error as NodeJS.ErrnoException).code}); name a file that this user may read`,
    );
  }
  return path;
}
