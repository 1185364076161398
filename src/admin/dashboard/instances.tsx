// The instances that share the routes, and the legacies behind them. Knows only what they say of themselves.
import type { InstanceBody, StatusBody } from '../api.js';
import { duration, milliseconds, some } from './format.js';
import { useShared } from './shared.js';

export function Instances({ legacy }: { readonly legacy: StatusBody['legacy'] }) {
  const { live } = useShared();
  return (
    <section class="panel" aria-labelledby="instances">
      <div class="title">
        <h2 id="instances">Instances</h2>
      </div>
      <ul class="instances">
        {live.instances.map((instance) => (
          <Instance key={instance.id} instance={instance} />
        ))}
      </ul>
      <ul class="instances">
        {legacy.map(({ url, reachable }) => (
          <li key={url}>
            <div class="line">
              <span class="muted">legacy</span> <code>{url}</code>
              <span class={reachable ? 'health good' : 'health bad'}>{reachable ? 'reachable' : 'not reachable'}</span>
            </div>
          </li>
        ))}
      </ul>
    </section>
  );
}

function Instance({ instance: i }: { readonly instance: InstanceBody }) {
  const { now } = useShared();
  return (
    <li>
      <div class="line">
        <code>{i.id}</code>
        {i.self && <span class="muted">this one</span>}
        <span class={i.draining ? 'health bad' : 'health good'}>{i.draining ? 'draining' : 'serving'}</span>
      </div>
      <p class="muted">
        {i.version}, up {duration(now - Date.parse(i.startedAt))}; {some(i.connections, 'connection')},{' '}
        {some(i.users, 'user')}, {some(i.calls.new, 'call')}; event loop p99 {milliseconds(i.lagMs)}
        {i.leaseAgeMs !== null && `; last heard of ${duration(i.leaseAgeMs)} ago`}
      </p>
    </li>
  );
}
