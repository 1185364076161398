// The line at the top: whether it is well, how much there is, which version is in force, and the red switch.
// Knows nothing of single events or calls.
import type { RoutesBody, StatusBody } from '../api.js';
import { count, duration } from './format.js';
import { LegacySwitch } from './legacy-switch.js';
import { keepToken } from './session.js';
import { useShared } from './shared.js';

interface Props {
  readonly status: StatusBody | null;
  readonly routes: RoutesBody | null;
}

export function Header({ status, routes }: Props) {
  const { live, online, now, nameless } = useShared();
  const { calls } = live;
  return (
    <header>
      <div class="brand">
        <h1>sigfig</h1>
        <Health status={status} />
      </div>
      <dl class="figures">
        <Figure name="Connections" value={count(live.connections)} />
        <Figure name="Users" value={count(live.users)} />
        <Figure name="Calls on new" value={count(calls.new)} />
        <Figure
          name="Calls on legacy"
          value={count(calls.legacy)}
          more={calls.peeled > 0 ? `${count(calls.peeled)} peeled` : undefined}
        />
        <Figure
          name="Routes"
          value={`v${live.routes.version}`}
          more={
            routes?.version === live.routes.version && online
              ? `${duration(now - Date.parse(routes.at))}, ${routes.actor}`
              : undefined
          }
        />
      </dl>
      <div class="acts">
        {!nameless && (
          <button type="button" class="quiet" onClick={signOut}>
            Sign out
          </button>
        )}
        <LegacySwitch />
      </div>
    </header>
  );
}

function signOut(): void {
  keepToken(null);
  location.reload();
}

function Health({ status }: { readonly status: StatusBody | null }) {
  const { online } = useShared();
  if (!online) return <span class="health bad">connection lost</span>;
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
