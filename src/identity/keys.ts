// Turns a secret, a public key or a key set into the keys that may verify a token, each pinned to its own algorithms,
// so that a token can never choose how it is checked. Knows nothing of what tokens say.
import { createPublicKey, createSecretKey, type KeyObject } from 'node:crypto';
import { type JwksOptions, jwksKeys } from './jwks.js';
import { HMAC, type PinnedKey, pick, pinnedPublicKey } from './pinned.js';

/** What may verify a token. */
export interface Keys {
  /**
   * The keys for a token whose header names this algorithm and key id, already narrowed to keys of that very kind;
   * otherwise why there is none. Synchronous; an unknown key id may start a refresh behind the scenes.
   */
  find(alg: string, kid: string | undefined): Found;
  /** Stops refreshing. */
  close(): void;
}

export type Found = { readonly keys: readonly KeyObject[] } | { readonly why: string };

/** What the configuration gives. `jwks`: a file's path or an http(s) URL. */
export type KeySource =
  | { readonly kind: 'secret'; readonly secret: Buffer }
  | { readonly kind: 'public-key'; readonly pem: string }
  | { readonly kind: 'jwks'; readonly at: string };

/**
 * Makes the keys once, at the start.
 * @throws Error whose message is one clear line and never holds a secret.
 */
export async function loadKeys(source: KeySource, options: JwksOptions): Promise<Keys> {
  switch (source.kind) {
    case 'secret':
      return secretKeys(source.secret);
    case 'public-key':
      return publicKeys(source.pem);
    case 'jwks':
      return jwksKeys(source.at, options);
  }
}

/**
 * An HMAC secret: the bytes as they are, but for trailing line ends. What looks like a key of another kind is refused,
 * because an attacker knows a public key and could sign with it.
 */
export function secretKeys(bytes: Buffer, what = 'the token secret'): Keys {
  let end = bytes.length;
  while (end > 0 && (bytes[end - 1] === 0x0a || bytes[end - 1] === 0x0d)) end--;
  const secret = bytes.subarray(0, end);
  const text = secret.toString('utf8').trim();
  if (text === '') throw new Error(`${what} is empty`);
  if (/-----BEGIN [A-Z0-9 ]+-----/.test(text)) {
    throw new Error(`${what} holds a PEM key, not a secret: give it as a public key file instead`);
  }
  if (/^\{[\s\S]*"(?:kty|keys)"\s*:/.test(text)) {
    throw new Error(`${what} holds a JSON Web Key, not a secret: give it as a JWKS instead`);
  }
  return fixedKeys([{ key: createSecretKey(secret), algorithms: HMAC }]);
}

/** One or more public keys or certificates in PEM; several at once are for a rotation. */
export function publicKeys(pem: string, what = 'the public key'): Keys {
  const blocks = pem.match(/-----BEGIN [A-Z0-9 ]+-----[\s\S]*?-----END [A-Z0-9 ]+-----/g) ?? [];
  if (blocks.length === 0) throw new Error(`${what} holds no PEM block (-----BEGIN PUBLIC KEY-----)`);
  return fixedKeys(
    blocks.map((block) => {
      if (/^-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----/.test(block)) {
        throw new Error(`${what} holds a private key: give the public key, the private one belongs to the issuer only`);
      }
      return pinnedPublicKey(
        readable(() => createPublicKey(block), what),
        what,
      );
    }),
  );
}

function fixedKeys(pinned: readonly PinnedKey[]): Keys {
  return {
    find(alg, kid) {
      const keys = pick(pinned, alg, kid);
      return keys.length > 0 ? { keys } : { why: 'algorithm not allowed' };
    },
    close() {
      // Nothing is refreshed.
    },
  };
}

function readable(make: () => KeyObject, what: string): KeyObject {
  try {
    return make();
  } catch {
    // The parser's message may quote the input.
    throw new Error(`${what} is not a readable PEM key`);
  }
}
