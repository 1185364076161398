// Flips a group: mode, what belongs to it, the dry run, a reason, the confirmation. Knows nothing of how routes are listed.
import { useState } from 'preact/hooks';
import type { GroupRoute, Mode } from '../../routing/route.js';
import type { HistoryBody } from '../api.js';
import { Reason, useCommit } from './commit.js';
import { Dialog, Problems } from './dialog.js';
import { type Draft, draftOf, requestOf, shareShown, withMode } from './draft.js';
import { clock } from './format.js';
import { Differences, PlanView, usePreview } from './plan.js';
import { useFetched, useId, useShared } from './shared.js';

export interface Flip {
  readonly ns: string;
  /** A group, or `calls`. */
  readonly target: string;
  /** In force, with its version, when the dialog was opened; of `calls` the lifecycle's. */
  readonly from: GroupRoute;
  readonly version: number;
  /** Of `calls`: in what its groups differ. */
  readonly differ: readonly string[];
}

interface Props {
  readonly flip: Flip;
  onClosed(): void;
}

export function ChangeDialog({ flip, onClosed }: Props) {
  const { ns, target, from, differ } = flip;
  const { client, mayChange, live } = useShared();
  const [draft, setDraft] = useState(() => draftOf(from));
  const [reason, setReason] = useState('');
  /** What the operator has looked at; the change is made from this and no other. */
  const [version, setVersion] = useState(flip.version);
  const commit = useCommit();
  const asked = requestOf(draft, from, ns, target);
  const preview = usePreview(client, 'api/routes/set', asked.ok ? { ...asked.request } : null);
  const newest = Math.max(commit.conflict ?? 0, live.routes.version);
  const behind = newest > version;
  const { plan } = preview;
  const something = plan !== null && (plan.differences.length > 0 || plan.namespaces.named.length > 0);
  const ready = mayChange && asked.ok && !behind && !preview.busy && something && reason.trim() !== '' && !commit.busy;

  const set = (change: Partial<Draft>) => {
    commit.clear();
    setDraft((now) => ({ ...now, ...change }));
  };
  const what = target === 'calls' ? 'all call events' : target;
  return (
    <Dialog
      title={`Change ${what}${ns === '/' ? '' : ` in ${ns}`}`}
      onClosed={onClosed}
      onSubmit={() => {
        if (!ready || !asked.ok) return;
        commit.run('api/routes/set', { ...asked.request, reason: reason.trim(), ifVersion: version }, onClosed);
      }}
      actions={
        <button type="submit" class="primary" disabled={!ready}>
          {commit.busy ? 'Changing…' : `Set to ${draft.mode}${draft.mode === 'canary' ? ` ${draft.percent} %` : ''}`}
        </button>
      }
    >
      {differ.length > 0 && (
        <p class="bar boxed warn">
          The groups differ now in {listed(differ)}. This is what call-lifecycle has; all three get{' '}
          {draft.mode === 'legacy' ? 'the mode' : 'everything'} that is set here.
        </p>
      )}
      <Modes mode={draft.mode} onMode={(mode) => set(withMode(draft, mode, from))} />
      {draft.mode === 'canary' && <CanaryFields draft={draft} set={set} differ={differ} />}
      {draft.mode !== 'legacy' && <More draft={draft} set={set} differ={differ} />}
      {!asked.ok && <Problems lines={asked.problems} />}
      {asked.ok && <PlanView preview={preview} />}
      {behind && (
        <Meanwhile
          since={version}
          onLook={() => {
            commit.clear();
            setVersion(newest);
            preview.again();
          }}
        />
      )}
      <Reason value={reason} onInput={setReason} required />
      <Problems lines={commit.problems} />
    </Dialog>
  );
}

const meanings: Readonly<Record<Mode, string>> = {
  legacy: 'New calls go to the legacy backend.',
  canary: 'A share of the new calls is served by sigfig, the rest by the legacy.',
  new: 'New calls are served by sigfig.',
};

function Modes({ mode, onMode }: { readonly mode: Mode; onMode(mode: Mode): void }) {
  const name = useId('mode');
  return (
    <fieldset class="modes">
      <legend class="visually-hidden">Mode</legend>
      <div class="segments">
        {(Object.keys(meanings) as Mode[]).map((one) => (
          <label key={one} class={one === mode ? `segment on ${one}` : 'segment'}>
            <input
              type="radio"
              name={name}
              value={one}
              checked={one === mode}
              data-first={one === mode ? true : undefined}
              onChange={() => onMode(one)}
            />
            {one}
          </label>
        ))}
      </div>
      <p class="muted">{meanings[mode]} Live calls stay where they are.</p>
    </fieldset>
  );
}

interface FieldsProps {
  readonly draft: Draft;
  /** What differs is to be seen without a click. */
  readonly differ: Flip['differ'];
  set(change: Partial<Draft>): void;
}

function CanaryFields({ draft, set, differ }: FieldsProps) {
  const id = useId('share');
  const lists = draft.users || draft.conversations || draft.excludeUsers || draft.excludeConversations;
  return (
    <>
      <div class="share">
        <label for={id}>Share of conversations</label>
        <input
          id={id}
          type="range"
          min={0}
          max={100}
          step={1}
          value={shareShown(draft.percent)}
          aria-valuetext={`${draft.percent} percent`}
          onInput={(event) => set({ percent: event.currentTarget.value })}
        />
        <span class="number-field">
          <input
            type="text"
            inputMode="decimal"
            aria-label="Share in percent, two decimals"
            value={draft.percent}
            onInput={(event) => set({ percent: event.currentTarget.value })}
          />
          %
        </span>
      </div>
      <details open={lists !== '' || differ.includes('lists')}>
        <summary>Always or never in the canary</summary>
        <p class="muted" id={`${id}-lists`}>
          One id a line.
        </p>
        <div class="pairs">
          <List
            describedBy={`${id}-lists`}
            name="Always these users"
            value={draft.users}
            onInput={(users) => set({ users })}
          />
          <List
            describedBy={`${id}-lists`}
            name="Always these conversations"
            value={draft.conversations}
            onInput={(conversations) => set({ conversations })}
          />
          <List
            describedBy={`${id}-lists`}
            name="Never these users"
            value={draft.excludeUsers}
            onInput={(excludeUsers) => set({ excludeUsers })}
          />
          <List
            describedBy={`${id}-lists`}
            name="Never these conversations"
            value={draft.excludeConversations}
            onInput={(excludeConversations) => set({ excludeConversations })}
          />
        </div>
      </details>
    </>
  );
}

function More({ draft, set, differ }: FieldsProps) {
  const fallback = useId('fallback');
  return (
    <details open={differ.includes('fallback') || differ.includes('guard')}>
      <summary>Fallback and guard</summary>
      <div class="field">
        <label for={fallback}>Where sigfig itself is unwell, new calls</label>
        <select
          id={fallback}
          value={draft.fallback}
          onChange={(event) => set({ fallback: event.currentTarget.value === 'legacy' ? 'legacy' : 'refuse' })}
        >
          <option value="legacy">go to the legacy</option>
          <option value="refuse">are refused (unavailable, try again)</option>
        </select>
      </div>
      {draft.mode === 'new' && (
        <Check
          name="Sole: the legacy’s handlers are gone, nothing is forwarded"
          on={draft.sole}
          set={(sole) => set({ sole })}
        />
      )}
      <Check
        name="Guard: back to the legacy by itself when it goes over a limit"
        on={draft.guardOn}
        set={(guardOn) => set({ guardOn })}
      />
      {draft.guardOn && (
        <div class="limits">
          <Text name="Errors, %" value={draft.maxErrors} onInput={(maxErrors) => set({ maxErrors })} />
          <Text name="Refusals, %" value={draft.maxRefusals} onInput={(maxRefusals) => set({ maxRefusals })} />
          <Text name="p99, ms" value={draft.maxP99Ms} onInput={(maxP99Ms) => set({ maxP99Ms })} />
          <Text name="Window, s" value={draft.windowS} onInput={(windowS) => set({ windowS })} />
          <Text name="Least events" value={draft.minSamples} onInput={(minSamples) => set({ minSamples })} />
        </div>
      )}
    </details>
  );
}

interface TextProps {
  readonly name: string;
  readonly value: string;
  onInput(value: string): void;
}

function Text({ name, value, onInput }: TextProps) {
  const id = useId('field');
  return (
    <div class="field">
      <label for={id}>{name}</label>
      <input
        id={id}
        type="text"
        autocomplete="off"
        spellcheck={false}
        value={value}
        onInput={(event) => onInput(event.currentTarget.value)}
      />
    </div>
  );
}

/** A list of ids: see ids.ts. */
function List({ name, value, onInput, describedBy }: TextProps & { readonly describedBy: string }) {
  const id = useId('field');
  return (
    <div class="field">
      <label for={id}>{name}</label>
      <textarea
        id={id}
        aria-describedby={describedBy}
        rows={Math.min(6, Math.max(2, value.split('\n').length))}
        autocomplete="off"
        spellcheck={false}
        value={value}
        onInput={(event) => onInput(event.currentTarget.value)}
      />
    </div>
  );
}

export function Check({ name, on, set }: { readonly name: string; readonly on: boolean; set(on: boolean): void }) {
  return (
    <label class="check">
      <input type="checkbox" checked={on} onChange={(event) => set(event.currentTarget.checked)} />
      {name}
    </label>
  );
}

/** What others have changed since the operator looked. */
function Meanwhile({ since, onLook }: { readonly since: number; onLook(): void }) {
  const { live, now } = useShared();
  const history = useFetched<HistoryBody>('api/routes/history?limit=5', live.routes.version);
  const theirs = history.data?.versions.filter(({ version }) => version > since) ?? [];
  return (
    <div class="bar boxed warn conflict" role="alert">
      <p>
        <strong>The routes were changed meanwhile.</strong> Nothing was changed by you.
      </p>
      {theirs.map(({ version, actor, at, reason, differences }) => (
        <div key={version}>
          <p>
            v{version} by <strong>{actor}</strong> at {clock(at, now)}: {reason || 'no reason given'}
          </p>
          <Differences differences={differences} />
        </div>
      ))}
      <button type="button" onClick={onLook}>
        Look at the dry run again
      </button>
    </div>
  );
}

const listed = (words: readonly string[]): string =>
  words.length > 1 ? `${words.slice(0, -1).join(', ')} and ${words.at(-1)}` : (words[0] ?? '');
