// The run as JUnit XML, for CI: a suite for each path and transport, a case for each scenario. Knows nothing of files.
import type { Result, RunResult } from '../run.js';
import { sideBySide } from './side-by-side.js';
import { columnOf } from './terminal.js';

export function junitReport({ results, ms }: RunResult): string {
  const suites = new Map<string, Result[]>();
  for (const result of results) suites.set(columnOf(result), [...(suites.get(columnOf(result)) ?? []), result]);
  const shown = [...suites].map(([name, cases]) => {
    const seconds = cases.reduce((sum, one) => sum + one.ms, 0) / 1_000;
    return [
      `  <testsuite name="${escaped(name)}" ${figures(cases)} time="${seconds.toFixed(3)}">`,
      ...cases.map((one) => testcase(one, name)),
      '  </testsuite>',
    ].join('\n');
  });
  return [
    '<?xml version="1.0" encoding="UTF-8"?>',
    `<testsuites name="parity" ${figures(results)} time="${(ms / 1_000).toFixed(3)}">`,
    ...shown,
    '</testsuites>',
    '',
  ].join('\n');
}

const isFailure = ({ status }: Result): boolean => status === 'differs' || status === 'gone';

function figures(results: readonly Result[]): string {
  const failures = results.filter(isFailure).length;
  const skipped = results.filter(({ status }) => status === 'not-run').length;
  return `tests="${results.length}" failures="${failures}" errors="0" skipped="${skipped}"`;
}

function testcase(result: Result, suite: string): string {
  const { scenario, round, status, why, ms } = result;
  const name = round > 1 ? `${scenario.name} (round ${round})` : scenario.name;
  const head = `    <testcase classname="parity.${escaped(suite)}" name="${escaped(name)}" file="${escaped(scenario.file)}" time="${(ms / 1_000).toFixed(3)}"`;
  if (status === 'same') return `${head}/>`;
  const inner = isFailure(result)
    ? `<failure message="${escaped(why)}">${escaped(details(result))}</failure>`
    : status === 'not-run'
      ? `<skipped message="${escaped(why)}"/>`
      : `<system-out>${escaped(`accepted difference: ${why}`)}</system-out>`;
  return `${head}>\n      ${inner}\n    </testcase>`;
}

function details({ divergences, against }: Result): string {
  return divergences
    .map((divergence) => {
      const { wanted, got, device, what } = sideBySide(divergence);
      const list = (lines: readonly string[]) =>
        lines.map((line, i) => `${i === divergence.at ? '>' : ' '} ${line}`).join('\n');
      return `${device}: ${what}\n${against}:\n${list(wanted)}\nreceived:\n${list(got)}`;
    })
    .join('\n\n');
}

/** Characters that XML 1.0 can't hold are left out. */
function escaped(text: string): string {
  return [...text]
    .filter((c) => c === '\t' || c === '\n' || c === '\r' || (c >= ' ' && c !== '\uFFFE' && c !== '\uFFFF'))
    .join('')
    .replace(/&/g, '&amp;')
    .replace(/</g, '&lt;')
    .replace(/>/g, '&gt;')
    .replace(/"/g, '&quot;')
    .replace(/\r/g, '&#13;');
}
