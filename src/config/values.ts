// The values a setting can have, each parsed once from its text: durations, addresses, URLs, files, keys. A fault is
// thrown as `Unfit`, whose message says what to write instead. Knows nothing of where the text came from.
import { createPublicKey, type KeyObject } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { BlockList, isIP } from 'node:net';
import { resolve } from 'node:path';

/** The text does not fit; the message is the second half of a line that starts with the setting's name. */
export class Unfit extends Error {}

export interface Address {
  /** Without brackets: `127.0.0.1`, `::1`, `localhost`. */
  readonly host: string;
  /** 0 takes any free port. */
  readonly port: number;
}

/** The algorithms that a token may be signed with, pinned by the kind of key so that a token can't choose. */
export type Algorithm =
  | 'HS256'
  | 'HS384'
  | 'HS512'
  | 'RS256'
  | 'RS384'
  | 'RS512'
  | 'PS256'
  | 'PS384'
  | 'PS512'
  | 'ES256'
  | 'ES384'
  | 'ES512';

export type TokenKey =
  | { readonly kind: 'secret'; readonly secret: Buffer; readonly algorithms: readonly Algorithm[] }
  /** SPKI or certificate, PEM. */
  | { readonly kind: 'public-key'; readonly pem: string; readonly algorithms: readonly Algorithm[] }
  /** The JSON text of a JWKS file, checked to hold `keys`. */
  | { readonly kind: 'jwks'; readonly json: string; readonly algorithms: readonly Algorithm[] }
  | { readonly kind: 'jwks-url'; readonly url: string; readonly algorithms: readonly Algorithm[] };

/** Where a browser's token stands; `auth` is the CONNECT packet's. Header names are in lower case. */
export interface TokenPlace {
  readonly in: 'auth' | 'query' | 'cookie' | 'header';
  readonly name: string;
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
  urlOrPath(text.replaceAll('{conversationId}', 'x'));
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

export function tokenPlace(text: string): TokenPlace {
  const match = /^(auth|query|cookie|header)\.([^\s,;=]+)$/.exec(text);
  if (!match?.[2]) {
    throw new Unfit(`${shown(text)} is no place of a token; write auth.NAME, query.NAME, cookie.NAME or header.NAME`);
  }
  const place = match[1] as TokenPlace['in'];
  return { in: place, name: place === 'header' ? match[2].toLowerCase() : match[2] };
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

/** A file of one word, such as a token; white space around it does not count. */
export const word = (path: string, base: string): string => file(path, base).trim();

/** A shared secret. A line's end after it does not count, since editors and `echo` add one. */
export function secretKey(path: string, base: string): TokenKey {
  const secret = Buffer.from(file(path, base).replace(/\r?\n$/, ''), 'utf8');
  return { kind: 'secret', secret, algorithms: ['HS256', 'HS384', 'HS512'] };
}

export function publicKey(path: string, base: string): TokenKey {
  const pem = file(path, base);
  const full = resolve(base, path);
  if (pem.includes('PRIVATE KEY'))
    throw new Unfit(`${full} holds a private key; give only the public one to the proxy`);
  let key: KeyObject;
  try {
    key = createPublicKey(pem);
  } catch {
    throw new Unfit(`${full} is no public key; write it as PEM, starting with -----BEGIN PUBLIC KEY-----`);
  }
  return { kind: 'public-key', pem, algorithms: algorithmsOf(key, full) };
}

/** A file, or an http(s) URL. */
export function jwks(text: string, base: string): TokenKey {
  if (/^https?:/i.test(text)) {
    return { kind: 'jwks-url', url: httpUrl(text, 'https://host/jwks.json').href, algorithms: ASYMMETRIC };
  }
  const json = file(text, base);
  let keys: unknown;
  try {
    keys = (JSON.parse(json) as { keys?: unknown } | null)?.keys;
  } catch {
    throw new Unfit(`${resolve(base, text)} is not JSON; a JWKS is {"keys":[…]}`);
  }
  if (!Array.isArray(keys) || keys.length === 0) {
    throw new Unfit(`${resolve(base, text)} holds no keys; a JWKS is {"keys":[…]}`);
  }
  return { kind: 'jwks', json, algorithms: ASYMMETRIC };
}

const RSA: readonly Algorithm[] = ['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512'];
const ASYMMETRIC: readonly Algorithm[] = [...RSA, 'ES256', 'ES384', 'ES512'];
const BY_CURVE: Readonly<Record<string, Algorithm>> = { prime256v1: 'ES256', secp384r1: 'ES384', secp521r1: 'ES512' };

function algorithmsOf(key: KeyObject, path: string): readonly Algorithm[] {
  const { asymmetricKeyType: type, asymmetricKeyDetails: details } = key;
  if (type === 'rsa' && (details?.modulusLength ?? 0) < 2048) {
    throw new Unfit(`${path} is an RSA key of under 2048 bits, which no token is accepted with; use a longer one`);
  }
  if (type === 'rsa') return RSA;
  const curve = type === 'ec' ? BY_CURVE[details?.namedCurve ?? ''] : undefined;
  if (!curve) throw new Unfit(`${path} is a key of another kind; use RSA or EC on P-256, P-384 or P-521`);
  return [curve];
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
