// The values a setting can have, each parsed once from its text: durations, addresses, URLs, files, keys. A fault is
// thrown as `Unfit`, whose message says what to write instead. Knows nothing of where the text came from.
import { X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { BlockList, isIP } from 'node:net';
import { resolve } from 'node:path';
import { parseJwks } from '../identity/jwks.js';
import { publicKeys, secretKeys } from '../identity/keys.js';
import { keepsPath } from '../identity/path.js';
import type { TokenSource } from '../identity/token-source.js';
import { NoRedisPlace, type RedisPlace, redisPlace } from '../redis/place.js';

/** The text does not fit; the message is the second half of a line that starts with the setting's name. */
export class Unfit extends Error {}

export interface Address {
  /** Without brackets: `127.0.0.1`, `::1`, `localhost`. */
  readonly host: string;
  /** 0 takes any free port. */
  readonly port: number;
}

/** Checked to be usable; the algorithms are pinned by the kind of key (`identity/keys.ts`). */
export type TokenKey =
  | { readonly kind: 'secret'; readonly secret: Buffer }
  /** One or more public keys or certificates. */
  | { readonly kind: 'public-key'; readonly pem: string }
  /** An absolute path, or an http(s) URL. */
  | { readonly kind: 'jwks'; readonly at: string };

/** `--redis`; what is wrong is said without the password. */
export function redis(texts: readonly string[]): RedisPlace {
  try {
    return redisPlace(texts);
  } catch (error) {
    if (error instanceof NoRedisPlace) throw new Unfit(error.message);
    throw error;
  }
}

/** A hash tag of Redis Cluster is no part of it. */
export function keyPrefix(text: string): string {
  if (!/^[\w.:-]{1,64}$/.test(text))
    throw new Unfit(`${shown(text)} is no prefix; write up to 64 letters, digits, and . : _ -`);
  return text;
}

export function instanceName(text: string): string {
  if (!/^[A-Za-z0-9][\w.-]{0,62}$/.test(text))
    throw new Unfit(`${shown(text)} is no name; write up to 63 letters, digits, and . _ -, such as sigfig-1`);
  return text;
}

/** `true`: every peer may set `X-Forwarded-*`; a list: only peers in these ranges. */
export type TrustProxy = boolean | readonly string[];

const UNIT = { ms: 1, s: 1000, m: 60_000, h: 3_600_000 } as const;
/** Timers hold no more than 2^31 - 1 ms, about 24.8 days. */
const LONGEST = 24 * UNIT.h;

/** `60s`, `500ms`, `2m`, `1h` as milliseconds. */
export function duration(text: string, { zero = false } = {}): number {
  const match = /^(\d+(?:\.\d+)?)(ms|s|m|h)$/.exec(text === '0' ? '0ms' : text);
  if (!match) throw new Unfit(`${shown(text)} is no duration; write a number with ms, s, m or h, such as 60s`);
  const ms = Math.round(Number(match[1]) * UNIT[match[2] as keyof typeof UNIT]);
  if (ms === 0 && !zero) throw new Unfit('0 is too short; write a duration over 0, such as 60s');
  if (ms > LONGEST) throw new Unfit(`${shown(text)} is too long; write at most 24h`);
  return ms;
}

/** `127.0.0.1:8080`, `[::1]:0`, `localhost:8080`. */
export function address(text: string): Address {
  const match = /^(?:\[([0-9a-fA-F:.%\w]+)\]|([^:[\]/\s]+)):(\d{1,5})$/.exec(text);
  const [, v6, name, digits] = match ?? [];
  const host = v6 ?? name;
  const port = Number(digits);
  if (host === undefined || port > 65_535 || (v6 !== undefined && isIP(v6) !== 6)) {
    throw new Unfit(
      `${shown(text)} is no address; write host:port, such as 127.0.0.1:8080, 0.0.0.0:8080 or [::1]:8080`,
    );
  }
  return { host, port };
}

/** `127.0.0.1:9464/metrics`; `/metrics` where no path is given. */
export function addressWithPath(text: string): Address & { readonly path: string } {
  const slash = text.indexOf('/');
  const path = slash < 0 ? '/metrics' : text.slice(slash);
  if (/[\s?#]/.test(path)) throw new Unfit(`${shown(text)} has no plain path; write 127.0.0.1:9464/metrics`);
  return { ...address(slash < 0 ? text : text.slice(0, slash)), path };
}

/** A backend's origin, without a path: the browser's own path goes on unchanged. */
export function origin(text: string): string {
  const url = httpUrl(text, 'http://127.0.0.1:3000');
  if (url.pathname !== '/' || url.search || url.hash) {
    throw new Unfit(`${shown(text)} has a path; write ${url.origin}, since the browser's path goes on unchanged`);
  }
  return url.origin;
}

/** An absolute URL, or a path on the legacy. */
export function urlOrPath(text: string): string {
  if (/^\/(?!\/)\S*$/.test(text)) return text;
  return httpUrl(text, '/api/calls/ticket or https://host/path').href;
}

/** A URL or path in which `{conversationId}` stands for the conversation. */
export function urlTemplate(text: string): string {
  if (!text.includes('{conversationId}')) {
    throw new Unfit(
      `${shown(text)} does not say where the conversation goes; write /api/conversations/{conversationId}`,
    );
  }
  const [x, y] = ['x', 'y'].map((id) => urlOrPath(text.replaceAll('{conversationId}', id)));
  if (text.startsWith('http') && new URL(x ?? '').host !== new URL(y ?? '').host) {
    throw new Unfit(`${shown(text)} has {conversationId} in its host; put it in the path`);
  }
  const filled = text.replaceAll('{conversationId}', 'x');
  if (!keepsPath(new URL(filled, 'http://legacy'), filled)) {
    throw new Unfit(`${shown(text)} would not be sent as it is written; percent-encode it, without . and ..`);
  }
  return text;
}

/** A JSON pointer in which `*` stands for every element of a list, as in the default. */
export function pointer(text: string): string {
  if (!/^(\/[^/]+)+$/.test(text)) throw new Unfit(`${shown(text)} is no JSON pointer; write /participants/*/id`);
  return text;
}

/** The path Engine.IO listens on; with its trailing slash. */
export function socketPath(text: string): string {
  if (!/^\/[^\s?#]*$/.test(text)) throw new Unfit(`${shown(text)} is no path; write /socket.io/`);
  return text.endsWith('/') ? text : `${text}/`;
}

/** Header names in lower case. */
export function tokenPlace(text: string): TokenSource {
  const match = /^(auth|query|cookie|header)\.([^\s,;=]+)$/.exec(text);
  if (!match?.[2]) {
    throw new Unfit(`${shown(text)} is no place of a token; write auth.NAME, query.NAME, cookie.NAME or header.NAME`);
  }
  const from = match[1] as TokenSource['from'];
  return { from, name: from === 'header' ? match[2].toLowerCase() : match[2] };
}

export function trustProxy(texts: readonly string[]): TrustProxy {
  if (texts.length === 1 && texts[0] === 'true') return true;
  if (texts.length === 1 && texts[0] === 'false') return false;
  return texts.flatMap((text) => {
    if (text === 'loopback') return ['127.0.0.0/8', '::1/128'];
    const [ip = '', bits, ...rest] = text.split('/');
    const family = isIP(ip);
    const most = family === 6 ? 128 : 32;
    const prefix = bits ?? String(most);
    if (family === 0 || rest.length > 0 || !/^\d{1,3}$/.test(prefix) || Number(prefix) > most) {
      throw new Unfit(`${shown(text)} is no range of addresses; write true, loopback or ranges such as 10.0.0.0/8`);
    }
    return [`${ip}/${prefix}`];
  });
}

/** Whether a peer at this address may set `X-Forwarded-*`. IPv4 in IPv6 (`::ffff:10.0.0.1`) counts as IPv4. */
export function trusts(trust: TrustProxy): (remoteAddress: string | undefined) => boolean {
  if (typeof trust === 'boolean') return () => trust;
  const ranges = new BlockList();
  for (const range of trust) {
    const [ip = '', bits] = range.split('/');
    ranges.addSubnet(ip, Number(bits), isIP(ip) === 6 ? 'ipv6' : 'ipv4');
  }
  return (remoteAddress) => {
    const plain = remoteAddress?.replace(/^::ffff:(?=\d+\.)/i, '') ?? '';
    const family = isIP(plain);
    return family !== 0 && ranges.check(plain, family === 6 ? 'ipv6' : 'ipv4');
  };
}

/** One of these words. */
export function oneOf<const T extends string>(words: readonly T[]): (text: string) => T {
  return (text) => {
    const found = words.find((word) => word === text);
    if (found === undefined) throw new Unfit(`${shown(text)} is unknown; write one of ${words.join(', ')}`);
    return found;
  };
}

/** The file's content; a file that can't be read or is empty does not fit. */
export function file(path: string, base: string): string {
  const full = resolve(base, path);
  let content: string;
  try {
    content = readFileSync(full, 'utf8');
  } catch (error) {
    throw new Unfit(
      `can't read ${full} (${(error as NodeJS.ErrnoException).code ?? 'unreadable'}); name a file that this user may read`,
    );
  }
  if (content.trim() === '') throw new Unfit(`${full} is empty; put its content there or name another file`);
  return content;
}

/** One or more certificates, PEM. Node takes any other text without a word, and then trusts nobody. */
export function certificates(path: string, base: string): string {
  const pem = file(path, base);
  const blocks = pem.match(/-----BEGIN ([A-Z0-9 ]*CERTIFICATE)-----[^-]+-----END \1-----/g) ?? [];
  try {
    if (blocks.length === 0) throw new Error('none');
    for (const block of blocks) new X509Certificate(block);
  } catch {
    throw new Unfit(
      `${resolve(base, path)} is no list of certificates (-----BEGIN CERTIFICATE-----); give them as PEM`,
    );
  }
  return pem;
}

/** A file of one word, such as a token; white space around it does not count. */
export function word(path: string, base: string): string {
  const text = file(path, base).trim();
  if (!/^[!-~]+$/.test(text))
    throw new Unfit(`${resolve(base, path)} holds more than one word; put the token alone there`);
  return text;
}

export function secretKey(path: string, base: string): TokenKey {
  const secret = Buffer.from(file(path, base), 'utf8');
  fits(() => secretKeys(secret, resolve(base, path)));
  return { kind: 'secret', secret };
}

export function publicKey(path: string, base: string): TokenKey {
  const pem = file(path, base);
  fits(() => publicKeys(pem, resolve(base, path)));
  return { kind: 'public-key', pem };
}

/** A file, or an http(s) URL. */
export function jwks(text: string, base: string): TokenKey {
  if (/^https?:/i.test(text)) return { kind: 'jwks', at: httpUrl(text, 'https://host/jwks.json').href };
  const json = file(text, base);
  const path = resolve(base, text);
  fits(() => parseJwks(json, { symmetric: true }), `${path} is no JWKS, `);
  return { kind: 'jwks', at: path };
}

/** What identity can't use does not fit; its messages are one clear line each and hold no secret. */
function fits(check: () => unknown, start = ''): void {
  try {
    check();
  } catch (error) {
    throw new Unfit(`${start}${(error as Error).message}; give a file with a key that fits`);
  }
}

function httpUrl(text: string, example: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (!url || !/^https?:$/.test(url.protocol)) {
    throw new Unfit(`${shown(text)} is no http or https URL; write ${example}`);
  }
  if (url.username || url.password) throw new Unfit('a URL here takes no user or password; write it without');
  return url;
}

const shown = (text: string) => JSON.stringify(text.length > 80 ? `${text.slice(0, 80)}…` : text);
