// A divergence as two lists of lines, so that every report shows it alike. Descriptions and candidates are shortened.
// Knows nothing of HTML or XML.
import type { Divergence, Wanted } from '../compare/match.js';
import { shortened } from './shorten.js';

export interface SideBySide {
  readonly device: string;
  readonly what: string;
  /** Index of the first line that differs, in both lists. */
  readonly at: number;
  readonly wanted: readonly string[];
  readonly got: readonly string[];
}

export function sideBySide({ device, what, at, wanted, got }: Divergence): SideBySide {
  return { device, what, at, wanted: wanted.flatMap(linesOf), got: got.flatMap(linesOf) };
}

/** One line for an entry; those that may come in any order have one each. */
export function linesOf(entry: Wanted): string[] {
  switch (entry.kind) {
    case 'event':
      return [`${entry.name}  ${argsOf(entry.args)}`];
    case 'ack':
      return [`ack of ${entry.name}  ${argsOf(entry.args)}`];
    case 'response':
      return [`${entry.name}  ${entry.status} ${text(entry.body)}`];
    case 'disconnected':
      return [`disconnected  ${entry.name}`];
    case 'any-order':
      return entry.entries.flatMap(linesOf).map((line) => `(any order) ${line}`);
  }
}

const argsOf = (args: readonly unknown[]): string => args.map(text).join(', ');

const text = (value: unknown): string => JSON.stringify(shortened(value)) ?? 'nothing';
