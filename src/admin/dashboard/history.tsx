// The versions of the route table, newest first, and the way back to each. Knows nothing of how a change is made otherwise.
import { useEffect, useState } from 'preact/hooks';
import type { HistoryBody, RollbackRequest, VersionBody } from '../api.js';
import { Check } from './change.js';
import { problemsOf } from './client.js';
import { Reason, useCommit } from './commit.js';
import { Dialog, Problems } from './dialog.js';
import { clock } from './format.js';
import { Differences, PlanView, usePreview } from './plan.js';
import { useFetched, useShared } from './shared.js';

const PAGE = 10;

/** `log`: where versions are kept, null for in memory only, undefined while it is not known. */
export function History({ log }: { readonly log: string | null | undefined }) {
  const { client, online, live } = useShared();
  const newest = useFetched<HistoryBody>(`api/routes/history?limit=${PAGE}`, live.routes.version);
  const [older, setOlder] = useState<HistoryBody | null>(null);
  const [problems, setProblems] = useState<readonly string[]>([]);
  const [to, setTo] = useState<VersionBody | null>(null);
  // Pages that were turned to belong to the first page that was shown then.
  useEffect(() => setOlder(null), [newest.data]);

  const versions = [...(newest.data?.versions ?? []), ...(older?.versions ?? [])];
  const more = (older ?? newest.data)?.more ?? false;
  const turn = async () => {
    const last = versions.at(-1);
    if (!last) return;
    try {
      const page = await client.get<HistoryBody>(`api/routes/history?limit=50&before=${last.version}`);
      setProblems([]);
      setOlder((now) => ({ versions: [...(now?.versions ?? []), ...page.versions], more: page.more }));
    } catch (error) {
      setProblems(problemsOf(error));
    }
  };
  return (
    <section class="panel history" aria-labelledby="history">
      <div class="title">
        <h2 id="history">History</h2>
        {log !== undefined && (
          <p class="muted" title={log ?? undefined}>
            {log === null ? 'kept in memory only' : log.split('/').at(-1)}
          </p>
        )}
      </div>
      <ol class="versions">
        {versions.map((version) => (
          <Version
            key={version.version}
            version={version}
            current={version.version === live.routes.version}
            onRollback={() => setTo(version)}
          />
        ))}
      </ol>
      <Problems lines={[...newest.problems, ...problems]} />
      {more && (
        <button type="button" class="quiet" disabled={!online} onClick={turn}>
          Show older versions
        </button>
      )}
      {to && <RollbackDialog to={to} onClosed={() => setTo(null)} />}
    </section>
  );
}

interface VersionProps {
  readonly version: VersionBody;
  readonly current: boolean;
  onRollback(): void;
}

function Version({ version: v, current, onRollback }: VersionProps) {
  const { now } = useShared();
  return (
    <li class={current ? 'current' : undefined}>
      <div class="line">
        <span class="what">
          <strong>v{v.version}</strong>{' '}
          <span class="muted">
            {clock(v.at, now)}, {v.actor === v.via ? v.actor : `${v.actor} by ${v.via}`}
            {v.kind !== 'set' && v.kind !== v.via && `, ${v.kind}`}
          </span>
        </span>
        {current ? (
          <span class="in-force">in force</span>
        ) : (
          // Like the red switch it takes back, and is never taken away.
          <button type="button" class="small" onClick={onRollback}>
            Roll back<span class="visually-hidden"> to version {v.version}</span>
          </button>
        )}
      </div>
      {v.reason !== '' && <p class="said">{v.reason}</p>}
      <Differences differences={v.differences} />
    </li>
  );
}

function RollbackDialog({ to, onClosed }: { readonly to: VersionBody; onClosed(): void }) {
  const { client, now } = useShared();
  const [reason, setReason] = useState('');
  const [endCalls, setEndCalls] = useState(false);
  const commit = useCommit();
  const request: RollbackRequest = { version: to.version, endCalls };
  const preview = usePreview(client, 'api/routes/rollback', request);
  return (
    <Dialog
      title={`Roll back to version ${to.version}`}
      onClosed={onClosed}
      onSubmit={() => {
        commit.run('api/routes/rollback', { ...request, reason: reason.trim() || undefined }, onClosed);
      }}
      actions={
        <button type="submit" class="primary" disabled={commit.busy}>
          {commit.busy ? 'Rolling back…' : `Roll back to v${to.version}`}
        </button>
      }
    >
      <p class="muted">
        The routes as {to.actor} left them at {clock(to.at, now)}
        {to.reason && `: ${to.reason}`}
      </p>
      <Check name="End the calls that sigfig serves now" on={endCalls} set={setEndCalls} />
      <PlanView preview={preview} />
      <Reason value={reason} onInput={setReason} required={false} />
      <Problems lines={commit.problems} />
    </Dialog>
  );
}
