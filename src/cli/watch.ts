// `sigfig routes watch`: the live figures of each event, redrawn in place on a terminal, as lines elsewhere. Knows nothing of
// how they come.
import type { EventFigures, LiveBody } from '../admin/api.js';
import { countsText } from './calls.js';
import { type ExitCode, exitCodes } from './failure.js';
import { type Action, readable } from './operate.js';
import { fileLines, modeColour } from './routes-text.js';
import { counted, graph, harmless, json, millis, rate, type Style, table, time } from './show.js';
import { guardState } from './status.js';
import { liveFigures, type Seen } from './stream.js';

export interface WatchFlags {
  /** Ends after so many snapshots. */
  readonly count?: number;
}

export const watchRoutes =
  ({ count }: WatchFlags): Action =>
  async (operation): Promise<ExitCode> => {
    const { client, world, style, json: asJson } = operation;
    const stop = world.interrupted?.() ?? new AbortController().signal;
    const screen = !asJson && world.terminal ? fullScreen(world.out, world.terminal.rows, style) : undefined;
    const show = screen?.show ?? lines(world.out, operation.warn, asJson);
    let shown = 0;
    try {
      for await (const seen of liveFigures(client, stop)) {
        show(seen);
        if (seen.kind === 'live' && ++shown === count) break;
      }
    } finally {
      screen?.leave();
    }
    return exitCodes.done;
  };

/** One line for the whole and one for each event in which something went on; with `--json` one object a second. */
function lines(out: (text: string) => void, warn: (line: string) => void, asJson: boolean): (seen: Seen) => void {
  return (seen) => {
    if (seen.kind === 'lost') warn(lostText(seen));
    else out(asJson ? `${json(seen.body, 0)}\n` : readable(() => snapshotLines(seen.body)));
  };
}

/** `2026-11-30 16:22:14Z total version=7 …` and `… event=call-offer route="/ canary 5 %" legacy=14.2/s new=0.8/s …`. */
export function snapshotLines(body: LiveBody): string {
  const at = time(body.at);
  const tripped = body.guard.filter(({ state }) => state === 'tripped').length;
  const total = [
    `${at} total version=${body.routes.version}`,
    `connections=${body.connections} users=${body.users}`,
    `calls-new=${body.calls.new} calls-legacy=${body.calls.legacy} instances=${body.instances.length}${ratesOf(body, ' rates-of=')}`,
    ...(tripped > 0 ? [`guards-tripped=${tripped}`] : []),
    ...(body.routes.problem === null ? [] : [`problem=${JSON.stringify(harmless(body.routes.problem))}`]),
    ...fileLines(body.routes.fileProblems)
      .slice(0, 1)
      .map((line) => `file-problem=${JSON.stringify(line)}`),
  ].join(' ');
  const events = body.events
    .filter((figures) => figures.rate.legacy + figures.rate.new + figures.refusals + figures.errors > 0)
    .map(
      (figures) =>
        `${at} event=${harmless(figures.event)} route="${routeText(figures)}" legacy=${rate(figures.rate.legacy)}/s ` +
        `new=${rate(figures.rate.new)}/s refusals=${figures.refusals} errors=${figures.errors} ` +
        `p50=${millis(figures.p50Ms)} p99=${millis(figures.p99Ms)}`,
    );
  return `${[total, ...events].join('\n')}\n`;
}

/** The terminal's second screen, so that the first one is as it was afterwards; the last picture is left on it. */
function fullScreen(out: (text: string) => void, rows: () => number, style: Style) {
  let last: LiveBody | undefined;
  let entered = false;
  const picture = (notice?: string) => {
    if (!entered) out('\x1b[?1049h\x1b[?25l\x1b[?7l');
    entered = true;
    const body = last;
    const text = body ? readable(() => pictureText(body, style)) : '';
    const shown = [...(notice === undefined ? [] : [style.red(notice)]), ...text.split('\n')];
    const hint = style.dim('Ctrl-C ends this');
    // What does not fit is left out: a line too many would scroll the screen.
    const fitting = [...shown.slice(0, Math.max(1, rows() - 1)), hint].slice(0, rows());
    out(`\x1b[H${fitting.map((line) => `${line}\x1b[K`).join('\n')}\x1b[J`);
  };
  return {
    show(seen: Seen) {
      if (seen.kind === 'live') last = seen.body;
      picture(seen.kind === 'lost' ? lostText(seen) : undefined);
    },
    leave() {
      if (!entered) return;
      out('\x1b[?7h\x1b[?25h\x1b[?1049l');
      if (last) out(`${pictureText(last, style)}\n`);
    },
  };
}

const GRAPH_WIDTH = 30;
/** Of the routes file; the figures must stay in sight. */
const MOST_PROBLEMS = 3;

export function pictureText(body: LiveBody, style: Style): string {
  const rows = body.events.map((figures) => [
    harmless(figures.event),
    routeText(figures, style),
    rate(figures.rate.legacy),
    rate(figures.rate.new),
    figures.refusals > 0 ? style.yellow(String(figures.refusals)) : '0',
    figures.errors > 0 ? style.red(String(figures.errors)) : '0',
    millis(figures.p50Ms),
    millis(figures.p99Ms),
    graph(
      figures.graph.legacy.map((value, i) => value + (figures.graph.new[i] ?? 0)),
      GRAPH_WIDTH,
    ),
  ]);
  const head = ['EVENT', 'ROUTE', 'LEGACY/s', 'NEW/s', 'REFUSED/min', 'ERRORS/min', 'P50', 'P99', 'LAST MINUTES'];
  const guards = body.guard
    .filter(({ state }) => state === 'tripped')
    .map(
      ({ ns, group, state, reason }) =>
        `guard of ${harmless(ns)} ${group} ${guardState(state, style)}: ${harmless(reason ?? '')}`,
    );
  return [
    `${style.bold(`routes version ${body.routes.version}`)}  ${time(body.at)}  ${counted(body.connections, 'connection')}, ` +
      `${counted(body.users, 'user')}, ${countsText(body.calls)}, ${counted(body.instances.length, 'instance')}` +
      ratesOf(body, '; the table shows ', ' only'),
    ...(body.routes.problem === null ? [] : [style.red(harmless(body.routes.problem))]),
    ...fileLines(body.routes.fileProblems).slice(0, MOST_PROBLEMS).map(style.red),
    ...guards,
    '',
    table(head, rows, style).trimEnd(),
  ].join('\n');
}

/** With several instances, the one that the figures of events are of; the numbers above them are of all. */
function ratesOf({ instances }: LiveBody, before: string, after = ''): string {
  const self = instances.length > 1 ? instances.find((one) => one.self) : undefined;
  return self ? `${before}${harmless(self.id)}${after}` : '';
}

/** `/ canary 5 %; /calls new (sole)`; where all namespaces agree, once without them. */
function routeText({ route }: EventFigures, style?: Style): string {
  const shown = Object.entries(route).map(([ns, { mode, sole, percent }]) => {
    const text = mode === 'canary' && percent !== null ? `canary ${percent} %` : sole ? `${mode} (sole)` : mode;
    return { ns: harmless(ns), text: style ? modeColour(mode, style)(text) : text };
  });
  const [first] = shown;
  if (first && shown.every(({ text }) => text === first.text)) return first.text;
  return shown.map(({ ns, text }) => `${ns} ${text}`).join('; ');
}

const lostText = ({ problem, againMs }: Extract<Seen, { kind: 'lost' }>): string =>
  `connection lost (${harmless(problem)}); trying again in ${(againMs / 1000).toFixed(1)} s`;
