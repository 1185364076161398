// How keys in Redis are written: one prefix for a deployment, a kind, and a hash tag, so that what goes together in one script lies
// on one server of a Cluster. Knows nothing of what stands under them.

/** Several texts as one tag, kept apart whatever they hold: `('/', 'dm:a')` → `%2F|dm%3Aa`. */
export const tagOf = (...parts: readonly string[]): string => parts.map(escaped).join('|');

/** `prefix:kind:{tag}`. In a tag of `tagOf` nothing changes; any other text is escaped where a brace or a space could be misread. */
export function keyOf(prefix: string, kind: string, tag: string): string {
  // An empty tag would be none: Redis then hashes the whole key.
  const plain = tag === '' ? '%' : tag.replace(/[^\w.~%|:@-]/gu, escaped);
  return `${prefix}:${kind}:{${plain}}`;
}

/** As `encodeURIComponent`, which throws on half a surrogate pair: that is `%uD800`, so that no two texts become one. */
const escaped = (text: string): string =>
  text.replace(/[^\w.~-]/gu, (char) =>
    /^[\uD800-\uDFFF]$/.test(char)
      ? `%u${char.charCodeAt(0).toString(16).toUpperCase()}`
      : [...new TextEncoder().encode(char)]
          .map((byte) => `%${byte.toString(16).toUpperCase().padStart(2, '0')}`)
          .join(''),
  );
