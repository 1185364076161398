import { generateKeyPairSync, type KeyObject } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type RequestListener, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import jwt from 'jsonwebtoken';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { manualClock } from '../base/clock.js';
import { jwksKeys, parseJwks } from './jwks.js';
import { createTokenVerifier } from './jwt.js';
import type { Keys } from './keys.js';

const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 });
const next = generateKeyPairSync('rsa', { modulusLength: 2048 });
const ec = generateKeyPairSync('ec', { namedCurve: 'P-256' });
const jwk = (key: KeyObject, more: object) => ({ ...key.export({ format: 'jwk' }), ...more });
const set = (...keys: unknown[]) => JSON.stringify({ keys });
const first = set(jwk(rsa.publicKey, { kid: 'a', use: 'sig', alg: 'RS256' }), jwk(ec.publicKey, { kid: 'e' }));
const rotated = set(jwk(next.publicKey, { kid: 'b' }));

const clock = manualClock(1_800_000_000_000);
const sign = (key: KeyObject, keyid?: string, algorithm: jwt.Algorithm = 'RS256') =>
  jwt.sign({ sub: 'ada', iat: clock.now() / 1000 }, key, { algorithm, ...(keyid ? { keyid } : {}) });

const opened: (() => void)[] = [];
afterEach(() => {
  for (const close of opened.splice(0)) close();
});

async function issuer(handler: RequestListener): Promise<{ url: string; server: Server }> {
  const server = createServer(handler).listen(0, '127.0.0.1');
  await once(server, 'listening');
  opened.push(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/jwks`, server };
}

async function load(url: string, problem?: (line: string) => void): Promise<Keys> {
  const keys = await jwksKeys(url, { clock, ...(problem ? { problem } : {}) });
  opened.push(() => keys.close());
  return keys;
}

describe('a key set behind a URL', () => {
  it('verifies by key id, each key by its own algorithm only', async () => {
    const { url } = await issuer((_, response) => response.end(first));
    const verifier = createTokenVerifier(await load(url), { clock });
    expect(verifier.verify(sign(rsa.privateKey, 'a')).ok).toBe(true);
    expect(verifier.verify(sign(ec.privateKey, 'e', 'ES256')).ok).toBe(true);
    expect(verifier.verify(sign(rsa.privateKey)).ok).toBe(true);
    // The set says RS256 for this key.
    expect(verifier.verify(sign(rsa.privateKey, 'a', 'RS512'))).toEqual({ ok: false, why: 'algorithm not allowed' });
    expect(verifier.verify(sign(rsa.privateKey, 'e'))).toEqual({ ok: false, why: 'algorithm not allowed' });
    expect(verifier.verify(sign(next.privateKey, 'a'))).toEqual({ ok: false, why: 'signature does not match' });
  });

  it('an unknown key id is refused at once, and known after the refresh that it starts', async () => {
    let body = first;
    let asked = 0;
    const { url } = await issuer((_, response) => {
      asked++;
      response.end(body);
    });
    const verifier = createTokenVerifier(await load(url), { clock });
    body = rotated;
    const token = sign(next.privateKey, 'b');
    expect(verifier.verify(token)).toEqual({ ok: false, why: 'unknown key' });
    expect(asked).toBe(1); // Loaded a moment ago: strangers can't make us ask as often as they like.
    clock.advance(10_000);
    for (let i = 0; i < 50; i++) expect(verifier.verify(sign(next.privateKey, `b${i}`)).ok).toBe(false);
    await vi.waitFor(() => expect(verifier.verify(token).ok).toBe(true));
    expect(asked).toBe(2);
    // What the issuer took out no longer counts.
    expect(verifier.verify(sign(rsa.privateKey, 'a'))).toEqual({ ok: false, why: 'unknown key' });
  });

  it('is refreshed in the background, and the last good set stays when that fails', async () => {
    let status = 200;
    let body = first;
    const { url } = await issuer((_, response) => {
      response.statusCode = status;
      response.end(body);
    });
    const problems: string[] = [];
    const verifier = createTokenVerifier(await load(`${url}?secret=1`, (line) => problems.push(line)), { clock });
    status = 503;
    clock.advance(600_000);
    await vi.waitFor(() => expect(problems).toHaveLength(1));
    expect(problems[0]).toBe(`the JWKS ${url} could not be refreshed, the last good keys stay: it answered 503`);
    expect(verifier.verify(sign(rsa.privateKey, 'a')).ok).toBe(true);
    status = 200;
    body = '{"keys":[]}';
    clock.advance(600_000);
    await vi.waitFor(() => expect(problems).toHaveLength(2));
    expect(verifier.verify(sign(rsa.privateKey, 'a')).ok).toBe(true);
    body = rotated;
    clock.advance(600_000);
    await vi.waitFor(() => expect(verifier.verify(sign(next.privateKey, 'b')).ok).toBe(true));
  });

  it.each<[what: string, handler: RequestListener, message: RegExp]>([
    ['404', (_, r) => void r.writeHead(404).end(), /^the JWKS http:\/\/127.*\/jwks can't be used: it answered 404$/],
    ['a redirect', (_, r) => void r.writeHead(302, { location: 'http://127.0.0.1:1/' }).end(), /it answered 302$/],
    ['a page', (_, r) => void r.end('<html>secret</html>'), /it is not JSON$/],
    ['endless', (_, r) => void r.end('x'.repeat(300_000)), /over 262144 bytes$/],
    ['broken off', (_, r) => void r.socket?.destroy(), /UND_ERR_SOCKET|ECONNRESET/],
  ])('the first load: %s is one clear line', async (_, handler, message) => {
    const { url } = await issuer(handler);
    await expect(jwksKeys(url, { clock })).rejects.toThrow(message);
  });

  it('a missing file and a closed port are one clear line', async () => {
    await expect(jwksKeys('/nonexistent/jwks.json', { clock })).rejects.toThrow(
      "the JWKS /nonexistent/jwks.json can't be used: ENOENT",
    );
    await expect(jwksKeys('http://127.0.0.1:1/', { clock })).rejects.toThrow(/can't be used: ECONNREFUSED/);
  });
});

describe('which keys of a set count', () => {
  const ids = (text: string, symmetric = false) => parseJwks(text, { symmetric }).map(({ kid }) => kid);
  const small = generateKeyPairSync('rsa', { modulusLength: 1024 });

  it('keys for encryption, of unknown kinds or too weak are left out, their neighbours count', () => {
    const text = set(
      jwk(rsa.publicKey, { kid: 'good' }),
      jwk(rsa.publicKey, { kid: 'enc', use: 'enc' }),
      jwk(rsa.publicKey, { kid: 'ops', key_ops: ['encrypt'] }),
      jwk(rsa.publicKey, { kid: 'confused', alg: 'HS256' }),
      jwk(rsa.publicKey, { kid: 'other', alg: 'RSA-OAEP' }),
      jwk(small.publicKey, { kid: 'small' }),
      { kty: 'OKP', crv: 'Ed25519', x: 'AAAA', kid: 'okp' },
      { kty: 'RSA', kid: 'broken' },
      { kid: 'no kind' },
      'text',
    );
    expect(ids(text)).toEqual(['good']);
  });

  it('threat: a symmetric key in a public set: everybody could sign with it', () => {
    const text = set({ kty: 'oct', k: 'c2VjcmV0', kid: 'o' }, jwk(rsa.publicKey, { kid: 'r' }));
    expect(ids(text)).toEqual(['r']);
    expect(ids(text, true)).toEqual(['o', 'r']);
  });

  it('a set without a usable key is an error', () => {
    expect(() => parseJwks('{"keys":[]}', { symmetric: false })).toThrow(/holds no key/);
    expect(() => parseJwks('[]', { symmetric: false })).toThrow(/no "keys" list/);
  });
});
