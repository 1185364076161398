// What `sigfig calls …` and `sigfig status` do: show live calls on either path, one call's way, how the instances are; end a
// call of the new path. Knows nothing of flags, and nothing of descriptions or candidates.
import type { CallBody, CallsBody, EndedBody, StatusBody } from '../admin/api.js';
import type { LiveCall, LiveCounts } from '../signaling/live.js';
import { exitCodes } from './failure.js';
import type { Action } from './operate.js';
import { fileLines, limits } from './routes-text.js';
import { counted, harmless, millis, type Style, span, table, time } from './show.js';

export interface CallsFlags {
  readonly path?: string;
  readonly state?: string;
  readonly search?: string;
  readonly namespace?: string;
  readonly limit: number;
}

export const listCalls =
  ({ path, state, search, namespace, limit }: CallsFlags): Action =>
  async ({ client, answer, style }) => {
    const query = new URLSearchParams({ limit: String(limit) });
    const filter = { path, state: state?.toUpperCase(), search, namespace };
    for (const [name, value] of Object.entries(filter)) if (value !== undefined) query.set(name, value);
    const body = await client.get<CallsBody>(`/api/calls?${query}`, ['total', 'counts', 'calls']);
    const filtered = path !== undefined || state !== undefined || search !== undefined || namespace !== undefined;
    answer(body, () => callsText(body, Date.now(), style, filtered));
    return exitCodes.done;
  };

export const showCall =
  (id: string): Action =>
  async ({ client, answer, style }) => {
    const body = await client.get<CallBody>(`/api/calls/${encodeURIComponent(id)}`, ['id', 'timeline']);
    answer(body, () => callText(body, Date.now(), style));
    return exitCodes.done;
  };

export const endCall =
  (id: string, given: string | undefined): Action =>
  async ({ client, answer, reason }) => {
    const path = `/api/calls/${encodeURIComponent(id)}/end`;
    const body = await client.post<EndedBody>(path, { reason: await reason(given) }, ['id', 'ended']);
    answer(body, () => `call ${harmless(body.id)} has ended\n`);
    return exitCodes.done;
  };

export const showStatus = (): Action => async (operation) => {
  const body = await operation.client.get<StatusBody>('/api/status', ['version', 'routes', 'instances']);
  operation.answer(body, () => statusText(body, Date.now(), operation.style));
  return exitCodes.done;
};

/** `filtered`: some were asked for only. */
export function callsText({ total, counts, calls }: CallsBody, now: number, style: Style, filtered: boolean): string {
  const live = countsText(counts);
  if (calls.length === 0) return filtered ? `no such call; live: ${live}\n` : 'no live calls\n';
  const rows = calls.map((call) => [
    harmless(call.id),
    call.ns === '/' ? '/' : harmless(call.ns),
    pathText(call, style),
    harmless(call.because),
    call.state,
    span(now - call.since),
    span(now - call.createdAt),
    person(call.offerer),
    person(call.answerer),
    harmless(call.conversationId),
  ]);
  const head = ['ID', 'NAMESPACE', 'PATH', 'WHY', 'STATE', 'IN IT', 'AGE', 'OFFERER', 'ANSWERER', 'CONVERSATION'];
  const cut = total > calls.length ? `newest ${calls.length} of ${total}; ` : '';
  return `${table(head, rows, style)}${cut}live: ${live}\n`;
}

export function callText(body: CallBody, now: number, style: Style): string {
  const { call, timeline } = body;
  const lines = [
    `${style.bold('call')}          ${harmless(body.id)}`,
    `conversation  ${harmless(body.conversationId)} in ${harmless(body.namespace)}`,
  ];
  const [began, last] = [call?.createdAt ?? timeline[0]?.at, timeline.at(-1)];
  if (call) lines.push(`path          ${pathText(call, style)} (${harmless(call.because)})`);
  else if (body.path)
    lines.push(`path          ${pathText({ path: body.path, peeled: [] }, style)} (${harmless(body.because ?? '?')})`);
  if (call) lines.push(`state         ${call.state} for ${span(now - call.since)}`);
  else
    lines.push(
      `state         ended${last?.to === 'ENDED' ? ` ${time(last.at)}, ${span(now - last.at)} ago (${harmless(last.because)})` : ''}`,
    );
  if (began !== undefined) lines.push(`began         ${time(began)}, ${span(now - began)} ago`);
  const { offerer, answerer } = call ?? body;
  lines.push(`offerer       ${person(offerer)}`, `answerer      ${person(answerer)}`);
  const [first] = timeline;
  const rows = timeline.map((entry) => [
    time(entry.at),
    `+${((entry.at - (first?.at ?? entry.at)) / 1000).toFixed(1)}s`,
    harmless(entry.from),
    harmless(entry.to),
    harmless(entry.event),
    harmless(entry.because),
  ]);
  const shown = rows.length > 0 ? `\n${table(['TIME', '', 'FROM', 'TO', 'EVENT', 'WHY'], rows, style)}` : '';
  return `${lines.join('\n')}\n${shown}`;
}

export function statusText(body: StatusBody, now: number, style: Style): string {
  const { routes } = body;
  const lines = [
    `sigfig ${harmless(body.version)}, up ${span(now - Date.parse(body.startedAt))}, ${
      body.ready ? style.green('ready') : style.red(`not ready: ${body.reasons.map(harmless).join(', ')}`)
    }`,
    `routes   version ${routes.version}: ${harmless(routes.summary)}`,
    `log      ${routes.log === null ? 'in memory only; versions are lost with the process' : harmless(routes.log)}`,
    ...(routes.problem === null ? [] : [`         ${style.red(harmless(routes.problem))}`]),
    ...fileLines(routes.fileProblems).map((line) => `file     ${style.red(line)}`),
    ...body.legacy.map(
      ({ url, reachable }) =>
        `legacy   ${harmless(url)} ${reachable ? style.green('reachable') : style.red('not reachable')}`,
    ),
  ];
  const instances = body.instances.map((instance) => [
    `${harmless(instance.id)}${instance.self ? ' *' : ''}`,
    harmless(instance.version),
    span(now - Date.parse(instance.startedAt)),
    String(instance.connections),
    String(instance.users),
    String(instance.calls.new),
    String(instance.calls.legacy),
    millis(instance.lagMs),
    instance.draining
      ? style.yellow('draining')
      : instance.leaseAgeMs === null
        ? 'alone'
        : `seen ${span(instance.leaseAgeMs)} ago`,
  ]);
  const head = ['INSTANCE', 'VERSION', 'UP', 'CONNECTIONS', 'USERS', 'CALLS NEW', 'LEGACY', 'LAG P99', 'STATE'];
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
    table(head, instances, style),
    ...(guards.length > 0 ? [table(guardHead, guards, style)] : []),
  ].join('\n');
}

export function guardState(state: string, { green, red, dim }: Style): string {
  if (state === 'tripped') return red(state);
  return state === 'well' ? green(state) : dim(harmless(state));
}

/** `3 new, 12 legacy (2 with relays here)`. */
export const countsText = ({ new: ours, legacy, peeled }: LiveCounts): string =>
  `${counted(ours, 'call')} on new, ${legacy} on legacy${peeled > 0 ? ` (${peeled} with relays here)` : ''}`;

function pathText({ path, peeled }: Pick<LiveCall, 'path' | 'peeled'>, { cyan, green }: Style): string {
  if (path === 'new') return green('new');
  return peeled.length > 0 ? `${cyan('legacy')} (${peeled.map(harmless).join(', ')} here)` : cyan('legacy');
}

/** Undefined: a server of an older version says nothing of an ended call's. */
const person = (name: string | null | undefined): string => (name ? harmless(name) : '?');
