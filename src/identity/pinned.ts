// Ties a key to the only algorithms that it may be used for (RFC 8725 section 3.1): the kind of the key decides, never
// the token. Knows nothing of where keys come from.
import type { KeyObject } from 'node:crypto';
import type { Algorithm } from 'jsonwebtoken';

/** One key with the only algorithms that it may be used for. */
export interface PinnedKey {
  readonly key: KeyObject;
  readonly algorithms: readonly Algorithm[];
  readonly kid?: string;
}

/** RFC 7518 section 3.2. */
export const HMAC: readonly Algorithm[] = ['HS256', 'HS384', 'HS512'];
const RSA: readonly Algorithm[] = ['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512'];
const RSA_PSS: readonly Algorithm[] = ['PS256', 'PS384', 'PS512'];
/** RFC 7518 section 3.4: each ES algorithm belongs to one curve. */
const CURVES: ReadonlyMap<string | undefined, Algorithm> = new Map([
  ['prime256v1', 'ES256'],
  ['secp384r1', 'ES384'],
  ['secp521r1', 'ES512'],
]);
/** RFC 7518 section 3.3: RSA keys below this are not to be used. */
const LEAST_RSA_BITS = 2048;

/** Pins an asymmetric key to the algorithms of its kind. Throws one clear line where no token algorithm fits it. */
export function pinnedPublicKey(key: KeyObject, what: string): PinnedKey {
  const details = key.asymmetricKeyDetails;
  switch (key.asymmetricKeyType) {
    case 'rsa':
    case 'rsa-pss':
      if ((details?.modulusLength ?? 0) < LEAST_RSA_BITS) {
        throw new Error(
          `${what} is an RSA key of ${details?.modulusLength} bits: at least ${LEAST_RSA_BITS} are needed`,
        );
      }
      return { key, algorithms: key.asymmetricKeyType === 'rsa' ? RSA : RSA_PSS };
    case 'ec': {
      const algorithm = CURVES.get(details?.namedCurve);
      if (algorithm) return { key, algorithms: [algorithm] };
      throw new Error(`${what} is on the curve ${details?.namedCurve}: P-256, P-384 or P-521 are needed`);
    }
    default:
      throw new Error(`${what} is of kind ${key.asymmetricKeyType}: RSA or EC is needed`);
  }
}

/** Picks among keys by algorithm and, where both sides name one, by key id. */
export function pick(pinned: readonly PinnedKey[], alg: string, kid: string | undefined): readonly KeyObject[] {
  return pinned
    .filter((p) => (p.algorithms as readonly string[]).includes(alg))
    .filter((p) => kid === undefined || p.kid === undefined || p.kid === kid)
    .slice(0, MOST_TRIED)
    .map((p) => p.key);
}

/** A token without a key id is tried against this many keys at most: each costs a signature check. */
const MOST_TRIED = 8;
