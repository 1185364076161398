// What a change would do, asked for before it is made. Knows no form.
import { useEffect, useState } from 'preact/hooks';
import type { Difference } from '../../routing/change.js';
import type { PlanBody } from '../api.js';
import { RouteBadge } from './badge.js';
import { type Client, problemsOf } from './client.js';
import { Problems } from './dialog.js';
import { routeChanges } from './format.js';
import { useSettled } from './shared.js';

export interface Preview {
  readonly plan: PlanBody | null;
  readonly problems: readonly string[];
  /** The plan is not (yet) that of what is filled in now. */
  readonly busy: boolean;
  again(): void;
}

/** A slider moves through many values on its way; one is asked for once it rests. */
const REST_MS = 250;

/** Asks for a dry run whenever what is asked for has changed; null: there is nothing to ask for yet. */
export function usePreview(client: Client, path: string, body: object | null): Preview {
  const wanted = body === null ? null : JSON.stringify({ ...body, dryRun: true });
  const settled = useSettled(wanted, REST_MS);
  const [turn, setTurn] = useState(0);
  const [answer, setAnswer] = useState<{ plan: PlanBody | null; problems: readonly string[]; of: string | null }>({
    plan: null,
    problems: [],
    of: null,
  });
  const key = `${turn} ${settled}`;
  useEffect(() => {
    if (settled === null) return;
    let stale = false;
    client.post<PlanBody>(path, JSON.parse(settled)).then(
      (plan) => {
        if (!stale) setAnswer({ plan, problems: [], of: key });
      },
      (error) => {
        if (!stale) setAnswer({ plan: null, problems: problemsOf(error), of: key });
      },
    );
    return () => {
      stale = true;
    };
  }, [client, path, key]);
  const busy = wanted !== null && (settled !== wanted || answer.of !== key);
  return { plan: answer.plan, problems: busy ? [] : answer.problems, busy, again: () => setTurn((n) => n + 1) };
}

/** The dry run in words. */
export function PlanView({ preview }: { readonly preview: Preview }) {
  const { plan, problems, busy } = preview;
  return (
    <section class={busy ? 'plan busy' : 'plan'} aria-label="Dry run" aria-busy={busy}>
      <h3>Dry run</h3>
      <div role="status">
        {!plan && busy && <p class="muted">Asking what it would do…</p>}
        {plan && plan.differences.length === 0 && plan.lines.length === 0 && (
          <p>Nothing would change: the routes are like that already.</p>
        )}
        {plan && <Differences differences={plan.differences} />}
        {plan && plan.lines.length > 0 && (
          <ul>
            {plan.lines.map((line) => (
              <li key={line}>{line}</li>
            ))}
          </ul>
        )}
      </div>
      <Problems lines={problems} />
      {problems.length > 0 && (
        <button type="button" class="small" onClick={preview.again}>
          Ask again
        </button>
      )}
    </section>
  );
}

/** More than this, of a whole table say, are counted. */
const SHOWN = 12;

export function Differences({ differences }: { readonly differences: readonly Difference[] }) {
  if (differences.length === 0) return null;
  const more = differences.length - SHOWN;
  return (
    <ul class="differences">
      {differences.slice(0, SHOWN).map(({ ns, group, before, after }) => (
        <li key={`${ns} ${group}`}>
          <code>{group}</code> {ns !== '/' && <code class="muted">{ns}</code>} <RouteBadge route={before} />
          <span class="arrow" aria-hidden="true">
            →
          </span>
          <span class="visually-hidden">becomes</span> <RouteBadge route={after} />
          <Details changes={routeChanges(before, after)} />
        </li>
      ))}
      {more > 0 && <li class="muted">and {more} more</li>}
    </ul>
  );
}

function Details({ changes }: { readonly changes: readonly string[] }) {
  return changes.length > 0 ? <span class="muted"> {changes.join('; ')}</span> : null;
}
