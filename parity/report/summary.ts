// The figures and groups that every report shows. Knows nothing of their looks.
import type { Result, RunResult, Status } from '../run.js';

export interface Summary {
  readonly counts: Readonly<Record<Status, number>>;
  /** Reason → names of scenarios. */
  readonly notRun: ReadonlyMap<string, readonly string[]>;
  readonly accepted: ReadonlyMap<string, readonly string[]>;
  readonly failures: readonly Result[];
}

export function summaryOf({ results }: RunResult): Summary {
  const counts = { same: 0, accepted: 0, differs: 0, gone: 0, 'not-run': 0 };
  const notRun = new Map<string, string[]>();
  const accepted = new Map<string, string[]>();
  for (const result of results) {
    counts[result.status]++;
    const groups = result.status === 'not-run' ? notRun : result.status === 'accepted' ? accepted : undefined;
    if (!groups) continue;
    const reason = result.status === 'not-run' ? `${result.path} ${result.why}` : result.why;
    const names = groups.get(reason) ?? [];
    if (!names.includes(result.scenario.name)) names.push(result.scenario.name);
    groups.set(reason, names);
  }
  const failures = results.filter(({ status }) => status === 'differs' || status === 'gone');
  return { counts, notRun, accepted, failures };
}
