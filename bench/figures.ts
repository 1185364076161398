// Figures of a benchmark that runs on a machine with other work: medians, and how sure they are. Pure.

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}

/**
 * Between which values the median of all lies with 95 % confidence: by drawing again, 2,000 times, from the groups that were
 * measured. A group is drawn whole, since what was measured on the same processes is alike.
 */
export function interval(groups: readonly (readonly number[])[]): readonly [number, number] {
  let seed = 1;
  const random = (): number => {
    // Numerical Recipes' generator: the same figures give the same interval.
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
    return seed / 2 ** 32;
  };
  const medians = Array.from({ length: 2_000 }, () =>
    median(groups.flatMap(() => groups[Math.floor(random() * groups.length)]!)),
  ).sort((a, b) => a - b);
  return [medians[50]!, medians[1_949]!];
}
