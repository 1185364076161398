// The table in force: each group of each namespace with its mode and its guard, and the way to change it.
// Knows nothing of what a change does.
import { useState } from 'preact/hooks';
import type { Group, GroupRoute, NamespaceRoutes } from '../../routing/route.js';
import type { GuardBody, RoutesBody } from '../api.js';
import { GuardBadge, RouteBadge } from './badge.js';
import { ChangeDialog, type Flip } from './change.js';
import { Problems } from './dialog.js';
import { differing, usualGuard } from './draft.js';
import { guardFigures, guardLimits, routeDetails } from './format.js';
import { type Fetched, useId, useShared } from './shared.js';

export function Routes({ routes }: { readonly routes: Fetched<RoutesBody> }) {
  const [flip, setFlip] = useState<Flip | null>(null);
  const [sought, setSought] = useState('');
  const { data } = routes;
  const all = Object.entries(data?.namespaces ?? {});
  const many = all.length > FEW;
  const shown = many ? all.filter(([ns]) => ns.includes(sought.trim())) : all;
  return (
    <section class="panel" aria-labelledby="routes">
      <div class="title">
        <h2 id="routes">Routes</h2>
        {many ? (
          <search>
            <input
              type="search"
              aria-label="Find a namespace"
              placeholder={`one of ${all.length} namespaces`}
              autocomplete="off"
              spellcheck={false}
              value={sought}
              onInput={(event) => setSought(event.currentTarget.value)}
            />
          </search>
        ) : (
          <p class="muted">A flip decides about calls that begin after it; live calls finish where they are.</p>
        )}
      </div>
      <div class={many ? 'namespaces many' : 'namespaces'}>
        {data &&
          shown.map(([ns, groups]) => (
            <Namespace
              key={ns}
              ns={ns}
              compact={many}
              groups={groups}
              onChange={(target, from) =>
                setFlip({
                  ns,
                  target,
                  from,
                  version: data.version,
                  differ: target === 'calls' ? differing(groups) : [],
                })
              }
            />
          ))}
      </div>
      {many && shown.length === 0 && <p class="empty">No namespace of the table is called like that.</p>}
      {data && (
        <Another
          named={data.namespaces}
          onChange={(ns) => setFlip({ ns, target: 'calls', from: unnamed, version: data.version, differ: [] })}
        />
      )}
      {!data && routes.busy && <p class="muted">Reading the routes…</p>}
      <Problems lines={routes.problems} />
      {flip && <ChangeDialog flip={flip} onClosed={() => setFlip(null)} />}
    </section>
  );
}

/** More namespaces than these are shown shorter, in a list of their own height, and can be searched. */
const FEW = 3;

interface NamespaceProps {
  readonly ns: string;
  readonly compact: boolean;
  readonly groups: NamespaceRoutes;
  onChange(target: string, from: GroupRoute): void;
}

function Namespace({ ns, compact, groups, onChange }: NamespaceProps) {
  const { live, mayChange } = useShared();
  const all = Object.entries(groups) as [Group, GroupRoute][];
  const guardOf = (group: Group) => live.guard.find((guard) => guard.ns === ns && guard.group === group);
  return (
    <section class="namespace" aria-label={`Namespace ${ns}`}>
      <div class="line">
        <h3>
          <span class="muted">Namespace</span> <code>{ns}</code>
        </h3>
        <button
          type="button"
          class="small"
          disabled={!mayChange}
          aria-label={`Change all groups of ${ns}`}
          onClick={() => onChange('calls', groups['call-lifecycle'])}
        >
          Change all…
        </button>
      </div>
      <ul class="groups">
        {all.map(([group, route]) => (
          <li key={group} class={`group ${route.mode}`}>
            <div class="line">
              <h4>{group}</h4>
              <button
                type="button"
                class="small"
                disabled={!mayChange}
                aria-label={`Change ${group} in ${ns}`}
                onClick={() => onChange(group, route)}
              >
                Change…
              </button>
            </div>
            <p class="route">
              <RouteBadge route={route} /> <span class="muted">{routeDetails(route).join(', ')}</span>
            </p>
            {route.canary && !compact && <Share percent={route.canary.percent} />}
            <Guard guard={guardOf(group)} compact={compact} />
          </li>
        ))}
      </ul>
    </section>
  );
}

/** What the table does not name. */
const unnamed: GroupRoute = { mode: 'legacy', sole: false, canary: null, fallback: 'refuse', guard: usualGuard };

interface AnotherProps {
  readonly named: RoutesBody['namespaces'];
  onChange(ns: string): void;
}

/** A namespace gets into the table by its first change. */
function Another({ named, onChange }: AnotherProps) {
  const { mayChange } = useShared();
  const [ns, setNs] = useState('');
  const id = useId('namespace');
  const fault = !/^\/[^\s,?]+$/.test(ns)
    ? 'a name such as /calls'
    : Object.hasOwn(named, ns)
      ? 'is in the table already'
      : null;
  return (
    <details class="another">
      <summary>Another namespace</summary>
      <form
        class="another-form"
        noValidate
        onSubmit={(event) => {
          event.preventDefault();
          if (mayChange && fault === null) onChange(ns);
        }}
      >
        <label for={id}>Namespace</label>
        <input
          id={id}
          type="text"
          maxLength={256}
          placeholder="/calls"
          autocomplete="off"
          spellcheck={false}
          aria-describedby={`${id}-fault`}
          value={ns}
          onInput={(event) => setNs(event.currentTarget.value.trim())}
        />
        <button type="submit" disabled={!mayChange || fault !== null}>
          Change…
        </button>
        <span id={`${id}-fault`} class="muted" role="status">
          {ns === '' || fault === null ? '' : fault}
        </span>
      </form>
    </details>
  );
}

/** Said in words by the badge. */
function Share({ percent }: { readonly percent: number }) {
  return (
    <svg class="share-bar" viewBox="0 0 100 4" preserveAspectRatio="none" aria-hidden="true">
      <rect class="rest" width="100" height="4" />
      <rect class="in" width={percent} height="4" />
    </svg>
  );
}

function Guard({ guard, compact }: { readonly guard: GuardBody | undefined; readonly compact: boolean }) {
  if (!guard || (guard.state === 'off' && guard.limits !== null)) return null;
  if (guard.state === 'off') return <p class="guard-line muted">guard off</p>;
  return (
    <p class="guard-line" title={`${compact ? `${guardFigures(guard)}; ` : ''}${guardLimits(guard)}`}>
      <GuardBadge guard={guard} /> {!compact && <span class="muted">{guardFigures(guard)}</span>}
      {/* That it tripped is an alert with its reason already. */}
      {!compact && guard.state !== 'tripped' && guard.reason && <span class="muted">; {guard.reason}</span>}
    </p>
  );
}
