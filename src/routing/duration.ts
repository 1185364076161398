// Durations as operators write them in a routes file. Knows nothing of what lasts so long.

const UNITS = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000 } as const;

/** `60s`, `1.5m`, `500ms` in milliseconds; null for anything else. */
export function durationOf(text: string): number | null {
  const [, digits, unit] = /^(\d{1,9}(?:\.\d{1,3})?)\s?(ms|s|m|h)$/.exec(text) ?? [];
  return digits === undefined ? null : Math.round(Number(digits) * UNITS[unit as keyof typeof UNITS]);
}

/** The shortest of those that says the same. */
export function shownDuration(ms: number): string {
  const [unit, length] = (Object.entries(UNITS) as [string, number][])
    .reverse()
    .find(([, size]) => ms >= size && ms % size === 0) ?? ['ms', 1];
  return `${ms / length}${unit}`;
}
