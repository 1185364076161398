// `?loopback=1` keeps media on 127.0.0.1: candidates of any other address are neither sent nor used. Knows nothing of calls.

const loopbackOnly = new URLSearchParams(location.search).get('loopback') === '1';

/** Whether a candidate line may be sent or used. */
export function isUsable(line) {
  if (!line) return false;
  return !loopbackOnly || /^127\.|^::1$/.test(line.split(' ')[4] ?? '');
}

/** The local description as it goes out, without candidates that may not be used. */
export function descriptionOf(pc) {
  const { type, sdp } = pc.localDescription;
  if (!loopbackOnly) return { type, sdp };
  const lines = sdp.split('\r\n').filter((line) => !line.startsWith('a=candidate:') || isUsable(line));
  return { type, sdp: lines.join('\r\n') };
}
