// What a run shows on the terminal: progress as it goes, each difference at once, and a table at the end. On a TTY the
// progress is one line that is written over; elsewhere plain lines. Knows nothing of how results came about.
import type { Result, RunResult, Status } from '../run.js';
import { summaryOf } from './summary.js';

interface Out {
  write(text: string): unknown;
  readonly isTTY?: boolean;
  readonly columns?: number;
}

export interface Screen {
  played(result: Result, done: number, all: number): void;
  end(result: RunResult): void;
}

export const marks: Readonly<Record<Status, string>> = {
  same: '✓',
  accepted: '~',
  differs: '✗',
  gone: '✗',
  'not-run': '–',
};

export function terminal(out: Out): Screen {
  const live = out.isTTY === true;
  let shownAt = 0;
  let failed = 0;
  const clear = () => (live ? '\r\x1b[K' : '');
  const paint = (code: number, text: string) => (live ? `\x1b[${code}m${text}\x1b[0m` : text);
  return {
    played(result, done, all) {
      if (result.status === 'differs' || result.status === 'gone') {
        failed++;
        out.write(`${clear()}${paint(31, '✗')} ${titleOf(result)}: ${short(result.why)}\n`);
      }
      if (live) {
        const width = 30;
        const filled = Math.round((done / all) * width);
        const bar = '█'.repeat(filled) + '░'.repeat(width - filled);
        const line = `${bar} ${done}/${all}${failed > 0 ? `, ${failed} differ` : ''}  ${titleOf(result)}`;
        out.write(`${clear()}${line.slice(0, (out.columns ?? 100) - 1)}`);
      } else if (done === all || done - shownAt >= all / 10) {
        shownAt = done;
        out.write(`${done} of ${all} played${failed > 0 ? `, ${failed} differ` : ''}\n`);
      }
    },
    end(result) {
      out.write(`${clear()}\n${table(result, paint)}\n${summary(result, paint)}\n`);
    },
  };
}

function table({ results }: RunResult, paint: (code: number, text: string) => string): string {
  const columns = [...new Set(results.map(columnOf))];
  const rows = new Map<string, Map<string, Result[]>>();
  for (const result of results) {
    const row = rows.get(result.scenario.name) ?? new Map<string, Result[]>();
    rows.set(result.scenario.name, row);
    row.set(columnOf(result), [...(row.get(columnOf(result)) ?? []), result]);
  }
  const width = Math.max(8, ...[...rows.keys()].map((name) => name.length));
  const head = `${''.padEnd(width)}  ${columns.join('  ')}`;
  const lines = [...rows].map(([name, row]) => {
    const cells = columns.map((column) => {
      const worst = worstOf(row.get(column) ?? []);
      const mark = worst ? marks[worst] : ' ';
      const color = worst === 'same' ? 32 : worst === 'accepted' ? 33 : worst === 'not-run' ? 90 : 31;
      return paint(color, mark.padEnd(column.length));
    });
    return `${name.padEnd(width)}  ${cells.join('  ')}`.trimEnd();
  });
  return [head, ...lines].join('\n');
}

function summary(result: RunResult, paint: (code: number, text: string) => string): string {
  const { counts, notRun, accepted, failures } = summaryOf(result);
  const lines = [];
  for (const [why, names] of accepted) lines.push(`${paint(33, '~')} accepted: ${why} (${names.join(', ')})`);
  for (const [why, names] of notRun) lines.push(`– not run: ${why} (${some(names)})`);
  for (const failure of failures) lines.push(`${paint(31, '✗')} ${titleOf(failure)}: ${short(failure.why)}`);
  const parts = [`${counts.same} as expected`];
  if (counts.accepted > 0) parts.push(`${counts.accepted} with an accepted difference`);
  if (counts.differs > 0) parts.push(`${counts.differs} differ`);
  if (counts.gone > 0) parts.push(`${counts.gone} declared but gone`);
  if (counts['not-run'] > 0) parts.push(`${counts['not-run']} not run`);
  lines.push(`${parts.join(', ')}; ${(result.ms / 1_000).toFixed(1)} s, seed ${result.seed}`);
  return lines.join('\n');
}

/** A reason can be that of all scenarios; the reports have every name. */
const MOST_NAMES = 5;
const some = (names: readonly string[]): string =>
  names.length <= MOST_NAMES ? names.join(', ') : `${names.length} scenarios`;

export function worstOf(results: readonly Result[]): Status | undefined {
  for (const status of ['differs', 'gone', 'accepted', 'not-run', 'same'] as const) {
    if (results.some((result) => result.status === status)) return status;
  }
  return undefined;
}

export const columnOf = ({ path, transport }: Pick<Result, 'path' | 'transport'>): string => `${path}/${transport}`;

const titleOf = ({ scenario, path, transport, round }: Result): string =>
  `${scenario.name} on ${path} over ${transport}${round > 1 ? `, round ${round}` : ''}`;

const short = (text: string): string => (text.length > 400 ? `${text.slice(0, 400)}…` : text);
