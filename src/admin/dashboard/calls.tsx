// Live calls, newest first: where each is, why, since when; a timeline by a click. Knows nothing of how a call works.
import { Fragment } from 'preact';
import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import type { LiveCall, TimelineEntry } from '../../signaling/live.js';
import type { CallBody, CallsBody, EndedBody } from '../api.js';
import { Badge } from './badge.js';
import { problemsOf } from './client.js';
import { Reason } from './commit.js';
import { Dialog, Problems } from './dialog.js';
import { clock, count, duration, NOTHING } from './format.js';
import { useFetched, useId, useSettled, useShared } from './shared.js';

const NEWEST = 100;
const REFRESH_MS = 2_000;
/** Each one that a call can be in, or the types don't fit. */
const states: Readonly<Record<LiveCall['state'], true>> = {
  OFFERING: true,
  CONNECTED: true,
  RENEGOTIATING: true,
  AWAITING_REJOIN: true,
  UNKNOWN: true,
};

export function Calls() {
  const { live } = useShared();
  const [search, setSearch] = useState('');
  const [path, setPath] = useState('');
  const [state, setState] = useState('');
  const [namespace, setNamespace] = useState('');
  const [open, setOpen] = useState<LiveCall | null>(null);
  const [ending, setEnding] = useState<LiveCall | null>(null);
  const sought = useSettled(search.trim(), 250);
  const namespaces = Object.keys(live.events[0]?.route ?? {});
  const many = namespaces.length > 1;
  const query = new URLSearchParams({ limit: String(NEWEST) });
  const asked = { search: sought, path, state, namespace: namespaces.includes(namespace) ? namespace : '' };
  for (const [key, value] of Object.entries(asked)) if (value) query.set(key, value);
  const { data, problems } = useFetched<CallsBody>(`api/calls?${query}`, null, REFRESH_MS);
  const ids = { search: useId('search'), path: useId('path'), state: useId('state'), ns: useId('ns') };
  // The one that is looked at stays when it ends, or is not among those sought.
  const gone = open && data && !data.calls.some(({ id }) => id === open.id) ? open : null;
  const filtered = Object.values(asked).some((value) => value !== '');
  return (
    <section class="panel calls" aria-labelledby="calls">
      <div class="title">
        <h2 id="calls">Live calls</h2>
        <p class="muted">{data && shown(data, filtered)}</p>
      </div>
      <search class={many ? 'filter four' : 'filter'}>
        <label class="visually-hidden" for={ids.search}>
          Search calls by conversation, user or id
        </label>
        <input
          id={ids.search}
          type="search"
          placeholder="conversation, user or id"
          autocomplete="off"
          spellcheck={false}
          value={search}
          onInput={(event) => setSearch(event.currentTarget.value)}
        />
        {many && (
          <>
            <label class="visually-hidden" for={ids.ns}>
              Namespace of calls
            </label>
            <select id={ids.ns} value={namespace} onChange={(event) => setNamespace(event.currentTarget.value)}>
              <option value="">any namespace</option>
              {namespaces.map((ns) => (
                <option key={ns}>{ns}</option>
              ))}
            </select>
          </>
        )}
        <label class="visually-hidden" for={ids.path}>
          Path
        </label>
        <select id={ids.path} value={path} onChange={(event) => setPath(event.currentTarget.value)}>
          <option value="">any path</option>
          <option value="new">new</option>
          <option value="legacy">legacy</option>
        </select>
        <label class="visually-hidden" for={ids.state}>
          State
        </label>
        <select id={ids.state} value={state} onChange={(event) => setState(event.currentTarget.value)}>
          <option value="">any state</option>
          {Object.keys(states).map((one) => (
            <option key={one}>{one}</option>
          ))}
        </select>
      </search>
      <Problems lines={problems} />
      {data && data.calls.length === 0 && !gone && (
        <p class="empty">{filtered ? 'No live call is like that.' : 'No call is live now.'}</p>
      )}
      {data && (data.calls.length > 0 || gone) && (
        <div class="scroll">
          <table>
            <thead>
              <tr>
                <th scope="col">Conversation</th>
                <th scope="col" class="users">
                  Users
                </th>
                <th scope="col">Path, why</th>
                <th scope="col" class="state">
                  State
                </th>
                <th scope="col" class="number">
                  Age
                </th>
              </tr>
            </thead>
            <tbody>
              {(gone ? [gone, ...data.calls] : data.calls).map((call) => (
                <Row
                  key={call.id}
                  call={call}
                  gone={call === gone}
                  open={open?.id === call.id}
                  onToggle={() => setOpen(open?.id === call.id ? null : call)}
                  onEnd={() => setEnding(call)}
                />
              ))}
            </tbody>
          </table>
        </div>
      )}
      {ending && <EndDialog call={ending} onClosed={() => setEnding(null)} />}
    </section>
  );
}

function shown({ total, calls, instances }: CallsBody, filtered: boolean): string {
  const whose = instances > 1 ? '; on legacy those that this instance has seen' : '';
  const of = `${filtered ? 'found' : 'live'}${whose}`;
  return total > calls.length ? `newest ${count(calls.length)} of ${count(total)} ${of}` : `${count(total)} ${of}`;
}

interface RowProps {
  readonly call: LiveCall;
  /** It is not in the list any more; only its timeline is new. */
  readonly gone: boolean;
  readonly open: boolean;
  onToggle(): void;
  onEnd(): void;
}

function Row({ call, gone, open, onToggle, onEnd }: RowProps) {
  const { now } = useShared();
  return (
    <>
      <tr class={open ? 'open' : undefined}>
        <th scope="row" class="conversation">
          <button type="button" class="link" aria-expanded={open} onClick={onToggle}>
            {call.conversationId}
          </button>
          {call.ns !== '/' && <small class="muted">{call.ns}</small>}
        </th>
        <td data-label="Users">
          {call.offerer ?? NOTHING}{' '}
          <span aria-hidden="true" class="muted">
            →
          </span>
          <span class="visually-hidden">calls</span> {call.answerer ?? NOTHING}
        </td>
        <td data-label="Path, why">
          <Badge mode={call.path}>{call.path}</Badge> <span class="muted">{call.because}</span>
          {call.peeled.length > 0 && <span class="muted">; {call.peeled.join(', ')} here</span>}
        </td>
        <td data-label="State" class="state">
          {gone ? NOTHING : <StateName state={call.state} />}
        </td>
        <td data-label="Age" class="number">
          {gone ? NOTHING : duration(now - call.createdAt)}
        </td>
      </tr>
      {open && (
        <tr class="details">
          <td colSpan={5}>
            <Timeline call={call} onEnd={onEnd} />
          </td>
        </tr>
      )}
    </>
  );
}

/** As in the log, and it may break where it has an underscore. */
function StateName({ state }: { readonly state: string }) {
  return (
    <>
      {state.split('_').map((word, i) => (
        <Fragment key={word}>
          {i > 0 && (
            <>
              _<wbr />
            </>
          )}
          {word}
        </Fragment>
      ))}
    </>
  );
}

function Timeline({ call, onEnd }: { readonly call: LiveCall; onEnd(): void }) {
  const { live, mayChange, now } = useShared();
  const path = `api/calls/${encodeURIComponent(call.id)}`;
  const { data, problems, busy } = useFetched<CallBody>(path, null, REFRESH_MS);
  // As new as the timeline below it.
  const newest = data ? data.call : call;
  const began = data?.timeline[0]?.at ?? call.createdAt;
  const list = useRef<HTMLElement>(null);
  const steps = data?.timeline.length;
  // How it is now, or how it ended, is what is looked for first.
  useLayoutEffect(() => list.current?.scrollTo(0, list.current.scrollHeight), [steps]);
  return (
    <div class="timeline">
      <div class="line">
        <p>
          Call <code>{call.id}</code>, {newest ? `${newest.state} for ${duration(now - newest.since)}` : 'ended'}
        </p>
        {newest?.path === 'new' && (
          <button type="button" class="small" disabled={!mayChange} onClick={onEnd}>
            End call…
          </button>
        )}
      </div>
      <Problems lines={problems} />
      {!data && busy && <p class="muted">Reading its timeline…</p>}
      {data && data.timeline.length === 0 && (
        <p class="muted">
          {live.instances.length > 1 ? 'Nothing of it happened on this instance.' : 'Nothing was seen of it yet.'}
        </p>
      )}
      {data && data.timeline.length > 0 && data.elsewhere.length > 0 && (
        <p class="muted">What this instance did; {data.elsewhere.join(', ')} may have more of it.</p>
      )}
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls, and keys must be able to do that */}
      <section class="steps" ref={list} aria-label="States in time" tabIndex={0}>
        <ol>
          {data?.timeline.map((entry, index) => (
            <li key={index}>
              <time dateTime={new Date(entry.at).toISOString()}>{clock(entry.at, now)}</time>
              <span class="muted number">+{duration(entry.at - began)}</span>
              <Step entry={entry} />
            </li>
          ))}
        </ol>
      </section>
    </div>
  );
}

function Step({ entry: { from, to, event, because } }: { readonly entry: TimelineEntry }) {
  if (event === 'left-out') return <span class="muted">{because}</span>;
  if (event === 'path') {
    return (
      <span>
        goes to <Badge mode={to === 'new' ? 'new' : 'legacy'}>{to}</Badge> <span class="muted">{because}</span>
      </span>
    );
  }
  return (
    <span>
      {from} → <strong>{to}</strong>{' '}
      <span class="muted">
        {event}
        {because !== event && `, ${because}`}
      </span>
    </span>
  );
}

function EndDialog({ call, onClosed }: { readonly call: LiveCall; onClosed(): void }) {
  const { client, mayChange, told } = useShared();
  const [reason, setReason] = useState('');
  const [problems, setProblems] = useState<readonly string[]>([]);
  const [busy, setBusy] = useState(false);
  const end = async () => {
    if (!mayChange || busy || reason.trim() === '') return;
    setBusy(true);
    try {
      await client.post<EndedBody>(`api/calls/${encodeURIComponent(call.id)}/end`, { reason: reason.trim() });
      told(`The call in ${call.conversationId} was ended.`);
      onClosed();
    } catch (error) {
      setProblems(problemsOf(error, true));
      setBusy(false);
    }
  };
  return (
    <Dialog
      title={`End the call in ${call.conversationId}`}
      onClosed={onClosed}
      onSubmit={end}
      actions={
        <button type="submit" class="danger" disabled={!mayChange || busy || reason.trim() === ''}>
          End call
        </button>
      }
    >
      <p>
        {call.offerer ?? NOTHING} and {call.answerer ?? NOTHING} are told that the call has ended.
      </p>
      <Reason value={reason} onInput={setReason} required />
      <Problems lines={problems} />
    </Dialog>
  );
}
