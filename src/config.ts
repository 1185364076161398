// Flags, environment and config file become one checked, frozen value here, and only here is the environment read.
// Knows nothing of what the settings do.
import { readFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { dirname, resolve } from 'node:path';
import { createSecureContext } from 'node:tls';
import { isMap, isScalar, LineCounter, parseDocument } from 'yaml';
import { z } from 'zod';
import { type ClientFlags, clientConfig, type LoadedClient } from './config/client.js';
import { type LogLevel, type SettingName, type Settings, settings } from './config/settings.js';
import { type Address, type TokenKey, type TrustProxy, Unfit } from './config/values.js';
import type { TokenSource } from './identity/token-source.js';
import type { RedisPlace } from './redis/place.js';

export type { Address, TokenKey, TrustProxy };

/** How a conversation's participants become known. URLs are absolute, or paths on the legacy. */
export type MembershipSource =
  | {
      readonly kind: 'ticket';
      readonly ticketUrl: string;
      /** For many at once; null: switched off. */
      readonly ticketsUrl: string | null;
    }
  | {
      readonly kind: 'rest';
      /** Holds `{conversationId}`. */
      readonly url: string;
      /** JSON pointer to the participants' ids, `*` for each element of a list. */
      readonly participants: string;
      /** A service token; without it the browser's own token is sent. */
      readonly token: string | undefined;
      readonly cacheMs: number;
    };

/** Durations are milliseconds; key material and certificates are the files' content. */
export interface Config {
  readonly listen: Address;
  /** Origins without a trailing slash, at least one: `http://127.0.0.1:3000`. */
  readonly legacy: readonly string[];
  /** PEM. */
  readonly legacyCa: string | undefined;
  readonly legacyTimeoutMs: number;
  /** Absolute path; undefined: everything is the legacy's. */
  readonly routes: string | undefined;
  /** Absolute path; undefined: beside the routes file, or none. */
  readonly routesLog: string | undefined;
  readonly admin: Address;
  /** Absolute path; undefined: nobody needs a token, which is for loopback only. */
  readonly adminTokens: string | undefined;
  readonly metrics: Address & { readonly path: string };
  /** With its leading and trailing slash. */
  readonly socketPath: string;
  readonly tokenKey: TokenKey;
  readonly tokenFrom: readonly TokenSource[];
  readonly userClaim: string;
  readonly membership: MembershipSource;
  /** What instances share; undefined: this is the only one. */
  readonly redis:
    | {
        readonly place: RedisPlace;
        /** PEM. */
        readonly ca: string | undefined;
        readonly prefix: string;
      }
    | undefined;
  /** What operators call this instance; several can have one name. */
  readonly instance: string;
  readonly rejoinTimeoutMs: number;
  readonly reapIntervalMs: number;
  readonly drainDelayMs: number;
  readonly drainMs: number;
  readonly trustProxy: TrustProxy;
  readonly tls: { readonly cert: string; readonly key: string } | undefined;
  readonly logLevel: LogLevel;
}

export type LoadedConfig =
  | { readonly ok: true; readonly config: Config }
  /** One clear line each. */
  | { readonly ok: false; readonly problems: readonly string[] };

/** Flags by their names without dashes (`legacy-ca`); `config` names the config file. A flag without a value is `true`. */
export type Flags = Readonly<Record<string, string | boolean | readonly string[] | undefined>>;

/**
 * Flags win over the environment (`SIGFIG_LEGACY_CA`), that over the config file, that over the defaults. Never throws.
 * Files named in the config file are relative to it, others to the working directory. Environment variables
 * that name no setting are left alone: Kubernetes sets `SIGFIG_SERVICE_HOST` and the like for a service called sigfig.
 */
export function loadConfig(
  flags: Flags,
  env: Readonly<Record<string, string | undefined>> = process.env,
): LoadedConfig {
  const problems: string[] = [];
  const here = process.cwd();
  const layers: Layer[] = [flagLayer(flags, here), environmentLayer(env, here)];
  const path = (typeof flags.config === 'string' && flags.config) || env.SIGFIG_CONFIG;
  if (path) layers.push(fileLayer(resolve(path), path, problems));
  // What a broken file would have given is not known: its own lines come first.
  const whole = problems.length === 0;

  const values: Record<string, unknown> = {};
  const given = new Map<SettingName, string>();
  for (const name of Object.keys(settings) as SettingName[]) {
    const setting = settings[name];
    const layer = layers.find((candidate) => candidate.values.has(name));
    const texts = layer?.values.get(name) ?? (setting.default === undefined ? undefined : [setting.default]);
    const label = layer?.label(name) ?? `--${name}`;
    if (layer) given.set(name, label);
    if (!texts) continue;
    const pieces = setting.many ? texts.flatMap((text) => text.split(',')).map((text) => text.trim()) : texts;
    const [first = ''] = pieces;
    try {
      if (pieces.length === 0 || pieces.some((piece) => piece === '')) throw new Unfit(`has no value; ${setting.help}`);
      if (!setting.many && pieces.length > 1) throw new Unfit('is given more than once; give it once');
      values[name] = setting.many
        ? setting.parse(pieces, layer?.dir ?? here)
        : setting.parse(first, layer?.dir ?? here);
    } catch (error) {
      if (!(error instanceof Unfit)) throw error;
      problems.push(`${label}: ${error.message}`);
    }
  }
  const parsed = values as Partial<Settings>;
  const config = whole ? together(parsed, given, problems) : undefined;
  return problems.length > 0 || !config ? { ok: false, problems } : { ok: true, config: frozen(config) };
}

/** The same for the commands that talk to a running sigfig (`config/client.ts`). */
export const loadClient = (
  flags: ClientFlags,
  env: Readonly<Record<string, string | undefined>> = process.env,
): LoadedClient => clientConfig(flags, env);

/** What only shows with all settings at hand. */
function together(
  parsed: Partial<Settings>,
  given: ReadonlyMap<SettingName, string>,
  problems: string[],
): Config | undefined {
  if (!given.has('legacy'))
    problems.push('--legacy: not given; write where the legacy backend is, such as http://127.0.0.1:3000');
  const keys = (['jwt-secret-file', 'jwt-public-key-file', 'jwks'] as const).filter((name) => given.has(name));
  if (keys.length !== 1) {
    const what =
      keys.length === 0
        ? 'no key is given to verify tokens with'
        : `${keys.map((k) => given.get(k)).join(' and ')} are given`;
    problems.push(
      `--jwt-secret-file: ${what}; give exactly one of --jwt-secret-file, --jwt-public-key-file and --jwks`,
    );
  }
  if (given.has('tls-cert') !== given.has('tls-key')) {
    const missing = given.has('tls-cert') ? 'tls-key' : 'tls-cert';
    problems.push(`--${missing}: not given; --tls-cert and --tls-key go together, give both or neither`);
  }
  const tls =
    parsed['tls-cert'] && parsed['tls-key'] ? { cert: parsed['tls-cert'], key: parsed['tls-key'] } : undefined;
  if (tls) {
    try {
      createSecureContext(tls);
    } catch (error) {
      problems.push(
        `--tls-cert: does not go with --tls-key (${(error as NodeJS.ErrnoException).code}); give a PEM certificate and its own key`,
      );
    }
  }
  for (const name of ['membership-participants', 'membership-token-file', 'membership-cache'] as const) {
    const label = given.get(name);
    if (label && !given.has('membership-url'))
      problems.push(`${label}: does nothing without --membership-url; give that too or remove this`);
  }
  for (const name of ['ticket-url', 'tickets-url'] as const) {
    const label = given.get(name);
    if (label && given.has('membership-url'))
      problems.push(`${label}: does nothing with --membership-url; give only one of the two`);
  }
  for (const name of ['redis-ca', 'redis-prefix', 'instance'] as const) {
    const label = given.get(name);
    if (label && !given.has('redis'))
      problems.push(`${label}: does nothing without --redis; give that too or remove this`);
  }
  if (parsed.redis && !parsed.redis.tls && given.has('redis-ca'))
    problems.push(`${given.get('redis-ca')}: does nothing without TLS; write rediss:// in --redis or remove this`);
  const log = given.get('routes-log');
  if (log && given.has('redis'))
    problems.push(
      `${log}: does nothing with --redis, where instances keep changes of routes; give only one of the two`,
    );
  if (problems.length > 0) return undefined;
  const all = parsed as Settings;
  const tokenKey = all['jwt-secret-file'] ?? all['jwt-public-key-file'] ?? all.jwks;
  if (!tokenKey) return undefined;
  return {
    listen: all.listen,
    legacy: all.legacy,
    legacyCa: all['legacy-ca'],
    legacyTimeoutMs: all['legacy-timeout'],
    routes: all.routes,
    routesLog: all['routes-log'],
    admin: all.admin,
    adminTokens: all['admin-tokens'],
    metrics: all.metrics,
    socketPath: all['socket-path'],
    tokenKey,
    tokenFrom: all['token-from'],
    userClaim: all['user-claim'],
    membership: all['membership-url']
      ? {
          kind: 'rest',
          url: all['membership-url'],
          participants: all['membership-participants'],
          token: all['membership-token-file'],
          cacheMs: all['membership-cache'],
        }
      : { kind: 'ticket', ticketUrl: all['ticket-url'], ticketsUrl: all['tickets-url'] },
    redis: all.redis && { place: all.redis, ca: all['redis-ca'], prefix: all['redis-prefix'] },
    instance: all.instance ?? hostInstance(),
    rejoinTimeoutMs: all['rejoin-timeout'],
    reapIntervalMs: all['reap-interval'],
    drainDelayMs: all['drain-delay'],
    drainMs: all.drain,
    trustProxy: all['trust-proxy'],
    tls,
    logLevel: all['log-level'],
  };
}

/** The host's name, as far as it can be one of an instance. */
const hostInstance = (): string =>
  hostname()
    .replace(/[^\w.-]/g, '-')
    .replace(/^[^A-Za-z0-9]+/, '')
    .slice(0, 63) || 'sigfig';

/** One source of settings, as texts. */
interface Layer {
  readonly values: ReadonlyMap<SettingName, readonly string[]>;
  /** How a line names the setting: `--listen`, `SIGFIG_LISTEN`, `sigfig.yaml:3 listen`. */
  label(name: SettingName): string;
  /** What relative file names are relative to. */
  readonly dir: string;
}

const names = Object.keys(settings) as SettingName[];

function flagLayer(flags: Flags, dir: string): Layer {
  const values = new Map<SettingName, readonly string[]>();
  for (const name of names) {
    const value = flags[name];
    if (value !== undefined) values.set(name, Array.isArray(value) ? value : [String(value)]);
  }
  return { values, dir, label: (name) => `--${name}` };
}

function environmentLayer(env: Readonly<Record<string, string | undefined>>, dir: string): Layer {
  const variable = (name: SettingName) => `SIGFIG_${name.toUpperCase().replaceAll('-', '_')}`;
  const values = new Map<SettingName, readonly string[]>();
  for (const name of names) {
    const value = env[variable(name)];
    if (value) values.set(name, [value]);
  }
  return { values, dir, label: variable };
}

const scalar = z.union([z.string(), z.number(), z.boolean()]).transform(String);
const fileShape = z.strictObject(
  Object.fromEntries(
    names.map((name) => [name, z.union([scalar.transform((text) => [text]), z.array(scalar).min(1)]).optional()]),
  ),
);

function fileLayer(path: string, shownAs: string, problems: string[]): Layer {
  const values = new Map<SettingName, readonly string[]>();
  const lineOf = new Map<string, number>();
  const layer = { values, dir: dirname(path), label: (name: string) => `${shownAs}:${lineOf.get(name) ?? 1}: ${name}` };
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (error) {
    problems.push(
      `--config: can't read ${path} (${(error as NodeJS.ErrnoException).code}); name a file that this user may read`,
    );
    return layer;
  }
  const lines = new LineCounter();
  const doc = parseDocument(text, { lineCounter: lines, prettyErrors: false, logLevel: 'silent' });
  for (const error of doc.errors) {
    problems.push(
      `${shownAs}:${lines.linePos(error.pos[0]).line}: not valid YAML: ${error.message.replace(/\s+/g, ' ')}; correct it`,
    );
  }
  if (doc.errors.length > 0 || doc.contents === null) return layer;
  if (!isMap(doc.contents)) {
    problems.push(`${shownAs}:1: not a map of settings; write lines such as "listen: 127.0.0.1:8080"`);
    return layer;
  }
  for (const { key } of doc.contents.items) {
    if (isScalar(key) && key.range) lineOf.set(String(key.value), lines.linePos(key.range[0]).line);
  }
  const read = fileShape.safeParse(doc.toJS());
  for (const issue of read.error?.issues ?? []) {
    if (issue.code === 'unrecognized_keys') {
      for (const key of issue.keys) {
        problems.push(
          `${layer.label(key)}: no such setting; "sigfig start --help" lists them, write one without its dashes`,
        );
      }
    } else {
      problems.push(`${layer.label(String(issue.path[0]))}: neither a value nor a list of values; write "NAME: VALUE"`);
    }
  }
  for (const [name, value] of Object.entries(read.data ?? {})) if (value) values.set(name as SettingName, value);
  return layer;
}

function frozen<T extends object>(value: T): T {
  for (const inner of Object.values(value)) {
    if (typeof inner === 'object' && inner !== null && !Buffer.isBuffer(inner)) frozen(inner as object);
  }
  return Object.freeze(value);
}
