// The line at the top: whether it is well, how much there is, which version is in force, and the red switch.
// Knows nothing of single events or calls.
import type { RoutesBody, StatusBody } from '../api.js';
import { isStale } from './feed.js';
import { count, duration } from './format.js';
import { LegacySwitch } from './legacy-switch.js';
import { keepToken } from './session.js';
import { usePage, useShared } from './shared.js';

interface Props {
  readonly status: StatusBody | null;
  readonly routes: RoutesBody | null;
}

export function Header({ status, routes }: Props) {
  const { live, nameless, you } = usePage();
  return (
    <header>
      <div class="brand">
        <h1>sigfig</h1>
        <Health status={status} />
      </div>
      {live && <Figures routes={routes} />}
      <div class="acts">
        {!nameless && (
          <>
            {you && (
              <span class="who">
                {you.actor} <span class="muted">{you.kind === 'read' ? 'may only read' : 'may operate'}</span>
              </span>
            )}
            <button type="button" class="quiet" onClick={signOut}>
              Sign out
            </button>
          </>
        )}
        <LegacySwitch />
      </div>
    </header>
  );
}

function Figures({ routes }: Pick<Props, 'routes'>) {
  const { live, link, now } = useShared();
  const { calls, instances } = live;
  const draining = instances.filter((one) => one.draining).length;
  return (
    <dl class="figures">
      <Figure name="Connections" value={count(live.connections)} />
      <Figure name="Users" value={count(live.users)} />
      <Figure name="Calls on new" value={count(calls.new)} />
      <Figure
        name="Calls on legacy"
        value={count(calls.legacy)}
        more={calls.peeled > 0 ? `${count(calls.peeled)} peeled` : undefined}
      />
      {instances.length > 1 && (
        <Figure
          name="Instances"
          value={count(instances.length)}
          more={draining > 0 ? `${draining} draining` : undefined}
        />
      )}
      <Figure
        name="Routes"
        value={`v${live.routes.version}`}
        more={
          routes?.version === live.routes.version && link === 'live'
            ? `${duration(now - Date.parse(routes.at))}, ${routes.actor}`
            : undefined
        }
      />
    </dl>
  );
}

function signOut(): void {
  keepToken(null);
  location.reload();
}

function Health({ status }: { readonly status: StatusBody | null }) {
  const { link } = usePage();
  if (link === 'lost') return <span class="health bad">connection lost</span>;
  if (isStale(link)) return <span class="health bad">no new figures</span>;
  if (!status) return <span class="health">…</span>;
  return status.ready ? (
    <span class="health good">ready, {status.version}</span>
  ) : (
    <span class="health bad">not ready, {status.version}</span>
  );
}

interface FigureProps {
  readonly name: string;
  readonly value: string;
  readonly more?: string | undefined;
}

function Figure({ name, value, more }: FigureProps) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>
        {value}
        {more && <small>{more}</small>}
      </dd>
    </div>
  );
}
