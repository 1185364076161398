// Whether a URL's path is sent as it was written. Knows nothing of who asks there; small, so that reading settings stays quick.

/** `filled`: the text that the URL was made from, absolute or a path. A `..` in it would have led to another endpoint. */
export function keepsPath(url: URL, filled: string): boolean {
  const path = filled.replace(/^https?:\/\/[^/?#]*/i, '').replace(/[?#].*$/s, '');
  return url.pathname.endsWith(path);
}
