// What `sigfig calls …` does: show live calls on either path, one call's way; end a call of the new path. Knows
// nothing of flags, and nothing of descriptions or candidates.
import type { CallBody, CallsBody, EndedBody } from '../admin/api.js';
import type { LiveCall, LiveCounts } from '../signaling/live.js';
import { exitCodes } from './failure.js';
import type { Action } from './operate.js';
import { counted, harmless, type Style, span, table, time } from './show.js';

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

/** `filtered`: some were asked for only. */
export function callsText(
  { total, counts, calls, instances }: CallsBody,
  now: number,
  style: Style,
  filtered: boolean,
): string {
  const seen = instances > 1 ? `; ${instances} instances, calls on legacy are those that this one has seen` : '';
  const live = `${countsText(counts)}${seen}`;
  if (calls.length === 0) return filtered ? `no such call; live: ${live}\n` : `no live calls${seen}\n`;
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
  const more = othersText(body.elsewhere ?? []);
  const head = lines.join('\n');
  if (rows.length === 0)
    return `${head}\n${call ? `\nnothing of it happened on the instance that was asked${more}\n` : ''}`;
  const shown = table(['TIME', '', 'FROM', 'TO', 'EVENT', 'WHY'], rows, style);
  return `${head}\n\n${shown}${more === '' ? '' : `that is what the instance did that was asked${more}\n`}`;
}

/** Each instance keeps what it did itself. A server of an older version says nothing of others. */
function othersText(elsewhere: readonly string[]): string {
  if (elsewhere.length === 0) return '';
  const rest = elsewhere.length > MOST_NAMED ? ` and ${elsewhere.length - MOST_NAMED} more` : '';
  return `; there may be more of it on ${elsewhere.slice(0, MOST_NAMED).map(harmless).join(', ')}${rest}`;
}
const MOST_NAMED = 8;

/** `3 new, 12 legacy (2 with relays here)`. */
export const countsText = ({ new: ours, legacy, peeled }: LiveCounts): string =>
  `${counted(ours, 'call')} on new, ${legacy} on legacy${peeled > 0 ? ` (${peeled} with relays here)` : ''}`;

function pathText({ path, peeled }: Pick<LiveCall, 'path' | 'peeled'>, { cyan, green }: Style): string {
  if (path === 'new') return green('new');
  return peeled.length > 0 ? `${cyan('legacy')} (${peeled.map(harmless).join(', ')} here)` : cyan('legacy');
}

/** Undefined: a server of an older version says nothing of an ended call's. */
const person = (name: string | null | undefined): string => (name ? harmless(name) : '?');
