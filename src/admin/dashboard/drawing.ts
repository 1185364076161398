// Values in time as the paths of an SVG picture. Pure; knows nothing of what they count.

export const WIDTH = 240;
export const HEIGHT = 32;
/** One event among thousands is still to be seen. */
const LEAST_MARK = 4;

const at = (i: number, steps: number) => ((i * WIDTH) / (steps - 1)).toFixed(1);
const up = (n: number, top: number) => (HEIGHT - (n / top) * (HEIGHT - 2)).toFixed(1);

/** What lies between two rows of values, `low` below `high`. */
export function area(low: readonly number[], high: readonly number[], top: number): string {
  const back = low.map((n, i) => `L${at(i, low.length)} ${up(n, top)}`).reverse();
  return `${high.map((n, i) => `${i === 0 ? 'M' : 'L'}${at(i, high.length)} ${up(n, top)}`).join('')}${back.join('')}Z`;
}

/** A bar from the ground up at each value, and nothing where there is none. */
export function marks(values: readonly number[], top: number): string {
  const least = (LEAST_MARK * top) / (HEIGHT - 2);
  const bar = (n: number, i: number) => `M${at(i, values.length)} ${HEIGHT}V${up(Math.max(n, least), top)}`;
  return values.map((n, i) => (n > 0 ? bar(n, i) : '')).join('');
}
