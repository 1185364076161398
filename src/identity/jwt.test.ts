import {
  createHmac,
  createPublicKey,
  generateKeyPairSync,
  type KeyObject,
  type KeyPairKeyObjectResult,
} from 'node:crypto';
import jwt from 'jsonwebtoken';
import { beforeAll, describe, expect, it } from 'vitest';
import { manualClock } from '../base/clock.js';
import { createTokenVerifier, userIdOf } from './jwt.js';
import { type KeySource, loadKeys, publicKeys, secretKeys } from './keys.js';

const clock = manualClock(1_800_000_000_000);
const now = clock.now() / 1000;
const SECRET = 'a secret of the legacy and ours';
const hmac = createTokenVerifier(secretKeys(Buffer.from(SECRET)), { clock });
const claims = { sub: 'ada', iat: now };

const b64 = (value: unknown): string =>
  Buffer.from(typeof value === 'string' ? value : JSON.stringify(value)).toString('base64url');
const pem = (key: KeyObject): string => key.export({ type: 'spki', format: 'pem' }).toString();

/** Signs by hand what jsonwebtoken refuses to sign. */
function forge(header: object, payload: unknown, secret: string): string {
  const signed = `${b64(header)}.${b64(payload)}`;
  return `${signed}.${createHmac('sha256', secret).update(signed).digest('base64url')}`;
}

let rsa: KeyPairKeyObjectResult;
const ec = generateKeyPairSync('ec', { namedCurve: 'P-256' });
const ec384 = generateKeyPairSync('ec', { namedCurve: 'P-384' });

beforeAll(() => {
  rsa = generateKeyPairSync('rsa', { modulusLength: 2048 });
});

describe('a token that holds', () => {
  it.each(['HS256', 'HS384', 'HS512'] as const)('%s with the secret', (algorithm) => {
    expect(hmac.verify(jwt.sign(claims, SECRET, { algorithm }))).toEqual({ ok: true, user: 'ada' });
  });

  it.each(['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512'] as const)('%s with an RSA public key', (algorithm) => {
    const verifier = createTokenVerifier(publicKeys(pem(rsa.publicKey)), { clock });
    expect(verifier.verify(jwt.sign(claims, rsa.privateKey, { algorithm }))).toEqual({ ok: true, user: 'ada' });
  });

  it('ES256 and ES384, each with a key of its curve', () => {
    const verifier = createTokenVerifier(publicKeys(pem(ec.publicKey) + pem(ec384.publicKey)), { clock });
    expect(verifier.verify(jwt.sign(claims, ec.privateKey, { algorithm: 'ES256' })).ok).toBe(true);
    expect(verifier.verify(jwt.sign(claims, ec384.privateKey, { algorithm: 'ES384' })).ok).toBe(true);
  });

  it('of two keys of a rotation, by either', () => {
    const second = generateKeyPairSync('rsa', { modulusLength: 2048 });
    const verifier = createTokenVerifier(publicKeys(pem(rsa.publicKey) + pem(second.publicKey)), { clock });
    for (const { privateKey } of [rsa, second]) {
      expect(verifier.verify(jwt.sign(claims, privateKey, { algorithm: 'RS256', keyid: 'any' })).ok).toBe(true);
    }
  });

  it('a few seconds around exp and nbf count as in time', () => {
    const sign = (times: object) => jwt.sign({ ...claims, ...times }, SECRET);
    expect(hmac.verify(sign({ exp: now - 3 })).ok).toBe(true);
    expect(hmac.verify(sign({ exp: now - 6 }))).toEqual({ ok: false, why: 'expired' });
    expect(hmac.verify(sign({ nbf: now + 3 })).ok).toBe(true);
    expect(hmac.verify(sign({ nbf: now + 8 }))).toEqual({ ok: false, why: 'not yet valid' });
  });

  it('audience and issuer are checked where they are set', () => {
    const strict = createTokenVerifier(secretKeys(Buffer.from(SECRET)), { clock, audience: 'web', issuer: 'us' });
    const sign = (more: object) => jwt.sign({ ...claims, ...more }, SECRET);
    expect(strict.verify(sign({ aud: ['web', 'app'], iss: 'us' })).ok).toBe(true);
    expect(strict.verify(sign({ aud: 'app', iss: 'us' }))).toEqual({ ok: false, why: 'wrong audience' });
    expect(strict.verify(sign({ aud: 'web', iss: 'them' }))).toEqual({ ok: false, why: 'wrong issuer' });
    expect(strict.verify(sign({ aud: 'web' }))).toEqual({ ok: false, why: 'wrong issuer' });
  });
});

describe("the user's claim", () => {
  const by = (userClaim: string) => createTokenVerifier(secretKeys(Buffer.from(SECRET)), { clock, userClaim });

  it('is sub, or another by configuration, a whole number too', () => {
    expect(by('https://example.org/uid').verify(jwt.sign({ 'https://example.org/uid': 42 }, SECRET))).toEqual({
      ok: true,
      user: '42',
    });
  });

  it.each([
    ['missing', {}],
    ['empty', { uid: '' }],
    ['too long', { uid: 'x'.repeat(257) }],
    ['an object', { uid: { id: 1 } }],
    ['null', { uid: null }],
    ['true', { uid: true }],
    ['a fraction', { uid: 1.5 }],
    ['a number that JSON rounds: two users would become one', { uid: 2 ** 53 }],
  ])('%s is refused', (_, payload) => {
    expect(by('uid').verify(jwt.sign(payload, SECRET))).toEqual({ ok: false, why: 'no usable user claim' });
  });

  it("an object's inherited names are no claims", () => {
    expect(by('constructor').verify(jwt.sign({}, SECRET)).ok).toBe(false);
    expect(by('__proto__').verify(jwt.sign({}, SECRET)).ok).toBe(false);
  });

  it('256 characters are accepted', () => {
    expect(userIdOf('x'.repeat(256))).toBe('x'.repeat(256));
  });
});

describe('threat: a token chooses how it is checked', () => {
  it('alg none, in any spelling, with and without a signature', () => {
    for (const alg of ['none', 'None', 'NONE', '', null, 5, ['HS256'], { toString: 'HS256' }]) {
      for (const tail of ['', 'x', b64('signature')]) {
        const token = `${b64({ alg, typ: 'JWT' })}.${b64(claims)}.${tail}`;
        expect(hmac.verify(token).ok, token).toBe(false);
        expect(createTokenVerifier(publicKeys(pem(rsa.publicKey)), { clock }).verify(token).ok).toBe(false);
      }
    }
  });

  it("HS/RS confusion: signed with the public key's text as an HMAC secret", () => {
    const verifier = createTokenVerifier(publicKeys(pem(rsa.publicKey)), { clock });
    for (const text of [pem(rsa.publicKey), pem(rsa.publicKey).trim()]) {
      expect(verifier.verify(forge({ alg: 'HS256' }, claims, text))).toEqual({
        ok: false,
        why: 'algorithm not allowed',
      });
    }
  });

  it('a secret verifies no RS token, an EC key no RS token, an RSA key no ES token, no curve another', () => {
    const rs = jwt.sign(claims, rsa.privateKey, { algorithm: 'RS256' });
    const es = jwt.sign(claims, ec.privateKey, { algorithm: 'ES256' });
    const no = { ok: false, why: 'algorithm not allowed' };
    expect(hmac.verify(rs)).toEqual(no);
    expect(createTokenVerifier(publicKeys(pem(ec.publicKey)), { clock }).verify(rs)).toEqual(no);
    expect(createTokenVerifier(publicKeys(pem(rsa.publicKey)), { clock }).verify(es)).toEqual(no);
    expect(createTokenVerifier(publicKeys(pem(ec384.publicKey)), { clock }).verify(es)).toEqual(no);
  });

  it("the header's own key (jwk, jku, x5c) is never used", () => {
    const attacker = generateKeyPairSync('rsa', { modulusLength: 2048 });
    const header = {
      alg: 'RS256' as const,
      jwk: attacker.publicKey.export({ format: 'jwk' }),
      jku: 'http://127.0.0.1:1/keys',
      kid: '../../dev/null',
    };
    const token = jwt.sign(claims, attacker.privateKey, { algorithm: 'RS256', header });
    const verifier = createTokenVerifier(publicKeys(pem(rsa.publicKey)), { clock });
    expect(verifier.verify(token)).toEqual({ ok: false, why: 'signature does not match' });
  });

  it('a critical extension that we do not know', () => {
    expect(hmac.verify(forge({ alg: 'HS256', crit: ['b64'], b64: false }, claims, SECRET))).toEqual({
      ok: false,
      why: 'unknown critical extension',
    });
  });
});

describe('threat: a token is forged or broken', () => {
  const good = jwt.sign(claims, SECRET);
  const [header, payload, signature] = good.split('.') as [string, string, string];

  it.each([
    ['signed by another', jwt.sign(claims, 'another secret')],
    ['its payload exchanged', `${header}.${b64({ ...claims, sub: 'eve' })}.${signature}`],
    ['its signature cut off', `${header}.${payload}.`],
    ['without a signature part', `${header}.${payload}`],
    ['four parts', `${good}.x`],
    ['not a token', 'nonsense'],
    ['empty', ''],
    ['dots only', '..'],
    ['a payload that is a string', forge({ alg: 'HS256' }, 'just text', SECRET)],
    ['a payload that is a list', forge({ alg: 'HS256' }, [], SECRET)],
    ['a payload that is null', forge({ alg: 'HS256' }, null, SECRET)],
    ['a header that is null', forge(JSON.parse('{"x":1}'), claims, SECRET).replace(/^[^.]+/, b64('null'))],
    ['an exp that is text', forge({ alg: 'HS256' }, { ...claims, exp: '9999999999' }, SECRET)],
    ['64 kB long', `${header}.${'A'.repeat(65_536)}.${signature}`],
  ])('%s', (_, token) => {
    const verified = hmac.verify(token);
    expect(verified.ok).toBe(false);
    if (!verified.ok) expect(token.length > 0 && verified.why.includes(token)).toBe(false);
  });

  it('a call ticket presented as a login: same key, same user, but it is no login', () => {
    for (const aud of ['call', ['web', 'call']]) {
      const ticket = jwt.sign({ ...claims, aud, conversationId: 'c', participants: ['ada', 'bob'] }, SECRET);
      expect(hmac.verify(ticket)).toEqual({ ok: false, why: 'a call ticket is not a login token' });
    }
  });
});

describe('loading keys', () => {
  const load = (source: KeySource) => loadKeys(source, { clock });
  const secret = (text: string): KeySource => ({ kind: 'secret', secret: Buffer.from(text) });
  const publicKey = (text: string): KeySource => ({ kind: 'public-key', pem: text });

  it("a secret's trailing line ends are not part of it, inner ones are", async () => {
    const verifier = createTokenVerifier(await load(secret(` ${SECRET}\nmore\r\n\n`)), { clock });
    expect(verifier.verify(jwt.sign(claims, ` ${SECRET}\nmore`)).ok).toBe(true);
  });

  it('threat: a public key where a secret is meant: everybody could sign with it', async () => {
    await expect(load(secret(`\n${pem(rsa.publicKey)}`))).rejects.toThrow(/holds a PEM key, not a secret/);
    const jwk = JSON.stringify({ keys: [rsa.publicKey.export({ format: 'jwk' })] });
    await expect(load(secret(jwk))).rejects.toThrow(/JSON Web Key/);
  });

  it('what is empty or of the wrong kind is one clear line without the content', async () => {
    const small = generateKeyPairSync('rsa', { modulusLength: 1024 });
    const ed = generateKeyPairSync('ed25519');
    const k1 = generateKeyPairSync('ec', { namedCurve: 'secp256k1' });
    const cases: [source: KeySource, message: RegExp][] = [
      [secret('\n \n'), /^the token secret is empty$/],
      [publicKey(SECRET), /holds no PEM block/],
      [publicKey('-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----'), /not a readable PEM/],
      [publicKey(pem(small.publicKey)), /1024 bits: at least 2048/],
      [publicKey(pem(ed.publicKey)), /kind ed25519: RSA or EC/],
      [publicKey(pem(k1.publicKey)), /curve secp256k1/],
      [publicKey(rsa.privateKey.export({ type: 'pkcs8', format: 'pem' }).toString()), /holds a private key/],
    ];
    for (const [source, message] of cases) {
      const error = await load(source).then(
        () => undefined,
        (e: Error) => e,
      );
      expect(error?.message).toMatch(message);
      expect(error?.message).not.toMatch(/\n|AAAA/);
    }
  });

  it('a public key in PKCS#1 form', () => {
    const pkcs1 = createPublicKey(rsa.publicKey.export({ type: 'pkcs1', format: 'pem' }));
    const verifier = createTokenVerifier(publicKeys(pkcs1.export({ type: 'pkcs1', format: 'pem' }).toString()), {
      clock,
    });
    expect(verifier.verify(jwt.sign(claims, rsa.privateKey, { algorithm: 'RS256' })).ok).toBe(true);
  });
});
