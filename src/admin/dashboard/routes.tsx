// The table in force: each group of each namespace with its mode and its guard, and the way to change it.
// Knows nothing of what a change does.
import { useState } from 'preact/hooks';
import type { Group, GroupRoute, NamespaceRoutes } from '../../routing/route.js';
import type { GuardBody, RoutesBody } from '../api.js';
import { GuardBadge, RouteBadge } from './badge.js';
import { ChangeDialog, type Flip } from './change.js';
import { Problems } from './dialog.js';
import { guardFigures, guardLimits, routeDetails } from './format.js';
import { type Fetched, useShared } from './shared.js';

export function Routes({ routes }: { readonly routes: Fetched<RoutesBody> }) {
  const [flip, setFlip] = useState<Flip | null>(null);
  const { data } = routes;
  const namespaces = Object.entries(data?.namespaces ?? {});
  return (
    <section class="panel" aria-labelledby="routes">
      <div class="title">
        <h2 id="routes">Routes</h2>
        <p class="muted">A flip decides about calls that begin after it; live calls finish where they are.</p>
      </div>
      <div class={namespaces.length > 3 ? 'namespaces many' : 'namespaces'}>
        {data &&
          namespaces.map(([ns, groups]) => (
            <Namespace
              key={ns}
              ns={ns}
              groups={groups}
              onChange={(target, from) => setFlip({ ns, target, from, version: data.version })}
            />
          ))}
      </div>
      {!data && routes.busy && <p class="muted">Reading the routes…</p>}
      <Problems lines={routes.problems} />
      {flip && <ChangeDialog flip={flip} onClosed={() => setFlip(null)} />}
    </section>
  );
}

interface NamespaceProps {
  readonly ns: string;
  readonly groups: NamespaceRoutes;
  onChange(target: string, from: GroupRoute): void;
}

function Namespace({ ns, groups, onChange }: NamespaceProps) {
  const { live, online } = useShared();
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
          disabled={!online}
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
                disabled={!online}
                aria-label={`Change ${group} in ${ns}`}
                onClick={() => onChange(group, route)}
              >
                Change…
              </button>
            </div>
            <p class="route">
              <RouteBadge route={route} /> <span class="muted">{routeDetails(route).join(', ')}</span>
            </p>
            {route.canary && <Share percent={route.canary.percent} />}
            <Guard guard={guardOf(group)} />
          </li>
        ))}
      </ul>
    </section>
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

function Guard({ guard }: { readonly guard: GuardBody | undefined }) {
  if (!guard || (guard.state === 'off' && guard.limits !== null)) return null;
  if (guard.state === 'off') return <p class="guard-line muted">guard off</p>;
  return (
    <p class="guard-line" title={guardLimits(guard)}>
      <GuardBadge state={guard.state} /> <span class="muted">{guardFigures(guard)}</span>
    </p>
  );
}
