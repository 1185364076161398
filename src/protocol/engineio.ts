// Engine.IO packets of protocol revision 4 as far as a proxy needs them: types, and the handshake, which is the
// legacy's own and of which only the offer of WebTransport is taken back. Knows nothing of what messages carry.

/** The first character of a packet in text form. */
export const EngineType = {
  OPEN: '0',
  CLOSE: '1',
  PING: '2',
  PONG: '3',
  MESSAGE: '4',
  UPGRADE: '5',
  NOOP: '6',
} as const;

/** What the legacy announced in its handshake: bytes and milliseconds. */
export interface Open {
  readonly sid: string;
  readonly upgrades: readonly string[];
  readonly pingInterval: number;
  readonly pingTimeout: number;
  readonly maxPayload: number;
}

/** engine.io's own default (`maxHttpBufferSize`), for a legacy that announces none. */
const DEFAULT_MAX_PAYLOAD = 1_000_000;
/** setTimeout's limit: what is announced beyond it counts as this. */
const LONGEST = 2 ** 31 - 1;

/** Reads `0{"sid":…}`. Null where it is no handshake that we understand; then the session is none of ours. */
export function readOpen(text: string): Open | null {
  if (text.charCodeAt(0) !== 0x30) return null;
  let value: unknown;
  try {
    value = JSON.parse(text.slice(1));
  } catch (error) {
    if (error instanceof SyntaxError) return null;
    throw error;
  }
  if (typeof value !== 'object' || value === null) return null;
  const { sid, upgrades, pingInterval, pingTimeout, maxPayload } = value as Record<string, unknown>;
  if (typeof sid !== 'string' || sid === '' || sid.length > 256) return null;
  if (!positive(pingInterval) || !positive(pingTimeout)) return null;
  const list = Array.isArray(upgrades) ? upgrades.filter((name): name is string => typeof name === 'string') : [];
  return {
    sid,
    upgrades: list,
    pingInterval: Math.min(pingInterval, LONGEST),
    pingTimeout: Math.min(pingTimeout, LONGEST),
    maxPayload: positive(maxPayload) ? maxPayload : DEFAULT_MAX_PAYLOAD,
  };
}

/**
 * The handshake without "webtransport" among its `upgrades`, which nobody here could carry; every other byte stays.
 * Returns the very same string where there is nothing to take out.
 */
export function withoutWebtransport(text: string): string {
  return text.replace(/("upgrades"\s*:\s*\[)([^\]]*)(\])/, (whole, before: string, list: string, after: string) => {
    if (!list.includes('"webtransport"')) return whole;
    const kept = list
      .replace(/\s*"webtransport"\s*,/g, '') // with the comma behind it
      .replace(/,?\s*"webtransport"\s*/g, ''); // the last one, with the comma before it
    return before + kept + after;
  });
}

const positive = (value: unknown): value is number => typeof value === 'number' && Number.isFinite(value) && value > 0;
