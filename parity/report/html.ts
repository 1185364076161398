// The run as one HTML file that needs no network: figures, the matrix, and for each difference the two transcripts side by
// side with the first divergence marked. Light and dark follow the reader's system. Knows nothing of files.
import type { Result, RunResult, Status } from '../run.js';
import { css } from './html-style.js';
import { linesOf, sideBySide } from './side-by-side.js';
import { summaryOf } from './summary.js';
import { columnOf, marks, worstOf } from './terminal.js';

const words: Readonly<Record<Status, string>> = {
  same: 'as expected',
  accepted: 'accepted difference',
  differs: 'differs',
  gone: 'declared but gone',
  'not-run': 'not run',
};

export function htmlReport(run: RunResult): string {
  const { counts, failures } = summaryOf(run);
  const failed = failures.length > 0;
  const figures = (Object.keys(words) as Status[])
    .filter((status) => counts[status] > 0)
    .map((status) => `<li class="${status}"><b>${counts[status]}</b> ${words[status]}</li>`);
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Parity: ${failed ? `${failures.length} differ` : 'as expected'}</title>
<style>${css}</style>
</head>
<body>
<header>
<h1>Parity</h1>
<p class="verdict ${failed ? 'differs' : 'same'}">${failed ? 'The paths do not behave as expected' : 'Every path behaves as expected'}</p>
<ul class="figures">${figures.join('')}</ul>
<p class="small">${run.results.length} plays in ${(run.ms / 1_000).toFixed(1)} s, seed ${run.seed}</p>
</header>
<main>
${matrix(run)}
${section('Differences', failures.map(difference))}
${section('Accepted differences', grouped(run.results, 'accepted').map(difference))}
${section('Not run', notRun(run))}
${section('Transcripts', transcripts(run))}
</main>
</body>
</html>
`;
}

function matrix({ results }: RunResult): string {
  const columns = [...new Set(results.map(columnOf))];
  const rows = new Map<string, Result[]>();
  for (const result of results) rows.set(result.scenario.name, [...(rows.get(result.scenario.name) ?? []), result]);
  const head = columns.map((column) => `<th scope="col">${escaped(column).replace('/', '<br>')}</th>`).join('');
  const body = [...rows].map(([name, all]) => {
    const cells = columns.map((column) => {
      const cell = all.filter((result) => columnOf(result) === column);
      const status = worstOf(cell);
      if (status === undefined) return '<td></td>';
      const shown = cell.find((result) => result.status === status) as Result;
      const of = cell.length > 1 ? `<sup>${cell.length}</sup>` : '';
      const title = `${words[status]}${shown.why === '' ? '' : `: ${shown.why}`}`;
      const mark = `<span aria-label="${words[status]}">${marks[status]}</span>${of}`;
      const inner = status === 'not-run' ? mark : `<a href="#${anchorOf(shown)}">${mark}</a>`;
      return `<td class="${status}" title="${escaped(cut(title))}">${inner}</td>`;
    });
    const about = all[0]?.scenario.about ?? '';
    return `<tr><th scope="row"><b>${escaped(name)}</b><span>${escaped(about)}</span></th>${cells.join('')}</tr>`;
  });
  return `<div class="scroll"><table class="matrix"><thead><tr><th></th>${head}</tr></thead><tbody>${body.join('\n')}</tbody></table></div>`;
}

function section(title: string, parts: readonly string[]): string {
  return parts.length === 0 ? '' : `<section><h2>${title}</h2>${parts.join('\n')}</section>`;
}

function difference(result: Result): string {
  const { scenario, path, transport, round, status, why, divergences, against } = result;
  const shown = divergences.map((divergence) => {
    const { device, what, at, wanted, got } = sideBySide(divergence);
    const list = (lines: readonly string[]) => {
      const items = lines.map(
        (line, i) => `<li${i === at ? ' class="at"' : i > at ? ' class="after"' : ''}>${escaped(line)}</li>`,
      );
      if (lines.length <= at) items.push('<li class="at">(nothing more)</li>');
      return `<ol>${items.join('')}</ol>`;
    };
    return `<h4>${escaped(device)}: ${escaped(what)}</h4>
<div class="sides"><div><h5>${escaped(against)}</h5>${list(wanted)}</div><div><h5>received on ${escaped(path)}</h5>${list(got)}</div></div>`;
  });
  return `<article id="${anchorOf(result)}" class="${status}">
<h3>${marks[status]} ${escaped(scenario.name)} <small>${escaped(path)}, ${transport}${round > 1 ? `, round ${round}` : ''}</small></h3>
<p>${escaped(cut(why))}</p>
<p class="small">${escaped(scenario.about)} (${escaped(scenario.file)}:${scenario.line})</p>
${shown.join('\n')}
</article>`;
}

/** One for each scenario, path and reason: the rounds of a repeat say the same. */
function grouped(results: readonly Result[], status: Status): Result[] {
  const seen = new Set<string>();
  return results.filter((result) => {
    const key = `${anchorOf({ ...result, round: 1 })}${result.why}`;
    if (result.status !== status || seen.has(key)) return false;
    seen.add(key);
    return true;
  });
}

function notRun(run: RunResult): string[] {
  const reasons = [...summaryOf(run).notRun];
  if (reasons.length === 0) return [];
  const items = reasons.map(([why, names]) => `<li><b>${escaped(why)}</b>: ${escaped(names.join(', '))}</li>`);
  return [`<ul>${items.join('')}</ul>`];
}

/** What was received where all is well: folded, and only of the first round. */
function transcripts({ results }: RunResult): string[] {
  return grouped(results, 'same')
    .filter(({ round }) => round === 1)
    .map((result) => {
      const devices = Object.entries(result.transcripts).map(
        ([device, entries]) =>
          `<h5>${escaped(device)}</h5><ol>${entries
            .flatMap(linesOf)
            .map((line) => `<li>${escaped(line)}</li>`)
            .join('')}</ol>`,
      );
      return `<details id="${anchorOf(result)}"><summary>${escaped(result.scenario.name)} <small>${escaped(columnOf(result))}</small></summary>${devices.join('')}</details>`;
    });
}

const anchorOf = ({
  scenario,
  path,
  transport,
  round,
}: Pick<Result, 'scenario' | 'path' | 'transport' | 'round'>): string =>
  `${scenario.name}-${path}-${transport}${round > 1 ? `-${round}` : ''}`.replace(/[^\w-]/g, '_');

const cut = (text: string): string => (text.length > 600 ? `${text.slice(0, 600)}…` : text);

function escaped(text: string): string {
  return text.replace(/&/g, '&amp;').replace(/</g, '&lt;').replace(/>/g, '&gt;').replace(/"/g, '&quot;');
}
