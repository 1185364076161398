// The instances that serve these browsers, with what each has and how to empty one; what they share, and the legacies behind them.
// Knows only what they say of themselves.
import { useState } from 'preact/hooks';
import type { InstanceBody, StatusBody } from '../api.js';
import { DrainDialog } from './drain.js';
import { count, duration, milliseconds } from './format.js';
import { useShared } from './shared.js';

export function Instances({ status }: { readonly status: StatusBody | null }) {
  const { live, mayChange } = useShared();
  const [asked, setAsked] = useState<InstanceBody | null>(null);
  const { instances } = live;
  return (
    <section class="panel instances" aria-labelledby="instances">
      <div class="title">
        <h2 id="instances">Instances</h2>
      </div>
      <table>
        <thead>
          <tr>
            <th scope="col">Instance</th>
            <th scope="col">State</th>
            <th scope="col">Version</th>
            <th scope="col" class="number">
              Up
            </th>
            <th scope="col" class="number">
              Connections
            </th>
            <th scope="col" class="number">
              Users
            </th>
            <th scope="col" class="number">
              Calls <small>new, legacy</small>
            </th>
            <th scope="col" class="number">
              Event loop <small>p99</small>
            </th>
            <th scope="col" class="number">
              Routes
            </th>
            <th scope="col" class="number">
              Lease <small>age</small>
            </th>
            <th scope="col">
              <span class="visually-hidden">Drain</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {instances.map((instance) => (
            <Row key={instance.id} instance={instance} mayDrain={mayChange} onDrain={() => setAsked(instance)} />
          ))}
        </tbody>
        {instances.length > 1 && <Sum />}
      </table>
      <ul>
        {status?.redis && <Behind what="Redis" where={status.redis.address} reachable={status.redis.reachable} />}
        {status?.legacy.map(({ url, reachable }) => (
          <Behind key={url} what="legacy" where={url} reachable={reachable} />
        ))}
      </ul>
      {asked && <DrainDialog asked={asked} onClosed={() => setAsked(null)} />}
    </section>
  );
}

interface RowProps {
  readonly instance: InstanceBody;
  readonly mayDrain: boolean;
  onDrain(): void;
}

function Row({ instance: i, mayDrain, onDrain }: RowProps) {
  const { live, now } = useShared();
  const behind = i.routesVersion !== live.routes.version;
  const words = [...(i.self ? ['this one'] : []), ...(i.leads && i.leaseAgeMs !== null ? ['leads'] : [])];
  return (
    <tr>
      <th scope="row">
        <code>{i.id}</code>
        {words.length > 0 && <small class="muted"> {words.join(', ')}</small>}
      </th>
      <td data-label="State">
        <span class={i.draining ? 'health bad' : 'health good'}>{i.draining ? 'draining' : 'serving'}</span>
      </td>
      <td data-label="Version">{i.version}</td>
      <td data-label="Up" class="number">
        {duration(now - Date.parse(i.startedAt))}
      </td>
      <td data-label="Connections" class="number">
        {count(i.connections)}
      </td>
      <td data-label="Users" class="number">
        {count(i.users)}
      </td>
      <td data-label="Calls: new, legacy" class="number">
        {count(i.calls.new)}, {count(i.calls.legacy)}
      </td>
      <td data-label="Event loop p99" class="number">
        {milliseconds(i.lagMs)}
      </td>
      <td data-label="Routes" class={behind ? 'number behind' : 'number'}>
        v{i.routesVersion}
        {behind && <small> not v{live.routes.version}</small>}
      </td>
      <td data-label="Lease age" class="number">
        {milliseconds(i.leaseAgeMs)}
      </td>
      <td class="number">
        <button
          type="button"
          class="small"
          disabled={!mayDrain}
          aria-label={i.draining ? `Take back the drain of ${i.id}` : `Drain ${i.id}`}
          onClick={onDrain}
        >
          {i.draining ? 'Take back…' : 'Drain…'}
        </button>
      </td>
    </tr>
  );
}

function Sum() {
  const { live } = useShared();
  const { calls, connections, users, instances } = live;
  return (
    <tfoot>
      <tr>
        <th scope="row" colSpan={4}>
          all {instances.length}
        </th>
        <td data-label="Connections" class="number">
          {count(connections)}
        </td>
        <td data-label="Users" class="number">
          {count(users)}
        </td>
        <td data-label="Calls: new, legacy" class="number">
          {count(calls.new)}, {count(calls.legacy)}
        </td>
        <td colSpan={4} />
      </tr>
    </tfoot>
  );
}

interface BehindProps {
  readonly what: string;
  readonly where: string;
  readonly reachable: boolean;
}

function Behind({ what, where, reachable }: BehindProps) {
  return (
    <li class="line">
      <span class="muted">{what}</span> <code>{where}</code>
      <span class={reachable ? 'health good' : 'health bad'}>{reachable ? 'reachable' : 'not reachable'}</span>
    </li>
  );
}
