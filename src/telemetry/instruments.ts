// Counters and histograms that cost little where they are told, and whose labels can't grow without end. Knows no signal by name.
import type { Attributes, Histogram, Meter, ObservableResult } from '@opentelemetry/api';

/** Seconds. Serving takes under a millisecond, an answer takes as long as somebody lets it ring. */
const BUCKETS = [0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60];

export const histogram = (meter: Meter, name: string, description: string): Histogram =>
  meter.createHistogram(name, { description, unit: 's', advice: { explicitBucketBoundaries: BUCKETS } });

/** Over this many combinations of labels a counter puts what is new under `other`: labels are of fixed vocabularies. */
export const MOST_SERIES = 512;

/**
 * A counter that costs a lookup and an increment, whatever its labels. `known`: values of a single label that show from the
 * start as zero, without which Prometheus would see no increase in what happens for the first time.
 */
export function tally(
  meter: Meter,
  name: string,
  description: string,
  labels: readonly string[],
  known: readonly string[] = [],
): Tally {
  const root: Branch = { cell: undefined, next: new Map() };
  const cells: Cell[] = [];
  const grow = (values: readonly string[]): Cell => {
    const full = cells.length >= MOST_SERIES;
    const attributes = Object.fromEntries(labels.map((label, i) => [label, full ? 'other' : (values[i] ?? '')]));
    const cell = { count: 0, attributes };
    cells.push(cell);
    return cell;
  };
  let overflow: Cell | undefined;
  // A counter without labels shows its zero; with labels its series appear as they happen.
  if (labels.length === 0) {
    root.cell = grow([]);
  }
  for (const value of known) root.next.set(value, { cell: grow([value]), next: new Map() });
  meter.createObservableCounter(name, { description }).addCallback((result: ObservableResult) => {
    for (const { count, attributes } of cells) result.observe(count, attributes);
  });
  const cellOf = (values: readonly string[]): Cell => {
    let branch = root;
    for (const value of values) {
      let next = branch.next.get(value);
      if (!next) {
        if (cells.length >= MOST_SERIES) {
          overflow ??= grow(values);
          return overflow;
        }
        next = { cell: undefined, next: new Map() };
        branch.next.set(value, next);
      }
      branch = next;
    }
    branch.cell ??= grow(values);
    return branch.cell;
  };
  const count = (...values: string[]): void => {
    cellOf(values).count++;
  };
  return Object.assign(count, {
    add(more: number, ...values: string[]) {
      cellOf(values).count += more;
    },
  });
}
interface Tally {
  /** One more of that combination of labels. */
  (...values: string[]): void;
  add(more: number, ...values: string[]): void;
}
interface Cell {
  count: number;
  readonly attributes: Attributes;
}
interface Branch {
  cell: Cell | undefined;
  readonly next: Map<string, Branch>;
}

/** One attributes object for each value, made once. */
export function attributesBy(label: string): (value: string) => Attributes {
  const made = new Map<string, Attributes>();
  return (value) => {
    let attributes = made.get(value);
    if (!attributes) {
      attributes = { [label]: value };
      if (made.size < MOST_SERIES) made.set(value, attributes);
    }
    return attributes;
  };
}
