// What `sigfig status` shows: how the asked instance is, what the instances share, each of them, and the guards. Knows nothing of
// flags.
import type { InstanceBody, StatusBody } from '../admin/api.js';
import { exitCodes } from './failure.js';
import type { Action } from './operate.js';
import { fileLines, limits } from './routes-text.js';
import { harmless, millis, type Style, span, table } from './show.js';

export const showStatus = (): Action => async (operation) => {
  const body = await operation.client.get<StatusBody>('/api/status', ['version', 'routes', 'instances']);
  operation.answer(body, () => statusText(body, Date.now(), operation.style));
  return exitCodes.done;
};

export function statusText(body: StatusBody, now: number, style: Style): string {
  const { routes } = body;
  const reasons = body.reasons.map(harmless).join(', ');
  const lines = [
    `sigfig ${harmless(body.version)}, up ${span(now - Date.parse(body.startedAt))}, ${
      body.ready ? style.green('ready') : style.red(`not ready: ${reasons}`)
    }${body.ready && reasons !== '' ? `, but ${style.red(reasons)}` : ''}`,
    `routes   version ${routes.version}: ${harmless(routes.summary)}`,
    `log      ${routes.log === null ? 'in memory only; versions are lost with the process' : harmless(routes.log)}`,
    ...(routes.problem === null ? [] : [`         ${style.red(harmless(routes.problem))}`]),
    ...fileLines(routes.fileProblems).map((line) => `file     ${style.red(line)}`),
    ...body.legacy.map(
      ({ url, reachable }) =>
        `legacy   ${harmless(url)} ${reachable ? style.green('reachable') : style.red('not reachable')}`,
    ),
    ...redisLines(body.redis ?? null, style),
  ];
  const guards = body.guard.map((guard) => [
    harmless(guard.ns),
    guard.group,
    guardState(guard.state, style),
    `${guard.figures.samples}`,
    `${guard.figures.errors}`,
    `${guard.figures.refusals}`,
    millis(guard.figures.p99Ms),
    limits(guard.limits),
    guard.reason === null ? '' : harmless(guard.reason),
  ]);
  const guardHead = ['GUARD OF', 'GROUP', 'STATE', 'SAMPLES', 'ERRORS', 'REFUSALS', 'P99', 'LIMITS', 'REASON'];
  return [
    `${lines.join('\n')}\n`,
    instancesTable(body, now, style),
    ...(guards.length > 0 ? [table(guardHead, guards, style)] : []),
  ].join('\n');
}

function redisLines(redis: StatusBody['redis'], style: Style): string[] {
  if (redis === null) return [];
  const { address, reachable } = redis;
  const away =
    'not reachable: the legacy is served, what the new path serves is refused or falls back; other instances are shown as they were';
  return [`redis    ${harmless(address)} ${reachable ? style.green('reachable') : style.red(away)}`];
}

/** One line each, and their sums below. */
function instancesTable({ instances, routes }: StatusBody, now: number, style: Style): string {
  const head = [
    'INSTANCE',
    'VERSION',
    'UP',
    'CONNECTIONS',
    'USERS',
    'CALLS NEW',
    'LEGACY',
    'LAG P99',
    'ROUTES',
    'LEASE',
    'STATE',
  ];
  const rows = instances.map((one) => [
    `${harmless(one.id)}${one.self ? ' *' : ''}`,
    harmless(one.version),
    span(now - Date.parse(one.startedAt)),
    ...countsOf([one]),
    millis(one.lagMs),
    one.routesVersion === routes.version ? `v${one.routesVersion}` : style.yellow(`v${one.routesVersion}`),
    one.leaseAgeMs === null ? '-' : `${(one.leaseAgeMs / 1_000).toFixed(1)}s`,
    stateOf(one, style),
  ]);
  if (instances.length <= 1) return table(head, rows, style);
  rows.push([style.dim(`all ${instances.length}`), '', '', ...countsOf(instances)]);
  return `${table(head, rows, style)}${style.dim('* is the one that was asked')}\n`;
}

function countsOf(instances: readonly InstanceBody[]): string[] {
  const sum = (of: (one: InstanceBody) => number) => String(instances.reduce((total, one) => total + of(one), 0));
  return [
    sum(({ connections }) => connections),
    sum(({ users }) => users),
    sum(({ calls }) => calls.new),
    sum(({ calls }) => calls.legacy),
  ];
}

function stateOf({ draining, leads, leaseAgeMs }: InstanceBody, { yellow }: Style): string {
  if (leaseAgeMs === null) return draining ? yellow('draining') : 'alone';
  return `${draining ? yellow('draining') : 'serving'}${leads ? ', leads' : ''}`;
}

export function guardState(state: string, { green, red, dim }: Style): string {
  if (state === 'tripped') return red(state);
  return state === 'well' ? green(state) : dim(harmless(state));
}
