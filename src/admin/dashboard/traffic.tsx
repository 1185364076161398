// Each event: its mode, what goes where, how quick and how well. Knows nothing of how a route is changed.
import { useMemo } from 'preact/hooks';
import type { EventFigures } from '../api.js';
import { Badge } from './badge.js';
import { count, milliseconds, NOTHING, percent, rate } from './format.js';
import { Graph } from './graph.js';
import { useShared } from './shared.js';

export function Traffic() {
  const { live } = useShared();
  const total = useMemo(() => {
    const legacy = live.events.reduce((sum, event) => sum + event.rate.legacy, 0);
    const served = live.events.reduce((sum, event) => sum + event.rate.new, 0);
    return { legacy, served };
  }, [live]);
  return (
    <section class="panel" aria-labelledby="traffic">
      <div class="title">
        <h2 id="traffic">Events</h2>
        <p class="sum">
          {live.instances.length > 1 && <span class="muted">of this instance only</span>}
          <span class="key legacy">{rate(total.legacy)}/s on legacy</span>
          <span class="key new">{rate(total.served)}/s on new</span>
          <span class="key refused">refused</span>
        </p>
      </div>
      <table class="traffic">
        <thead>
          <tr>
            <th scope="col">Event</th>
            <th scope="col">Mode</th>
            <th scope="col" class="number">
              Legacy <small>per s</small>
            </th>
            <th scope="col" class="number">
              New <small>per s</small>
            </th>
            <th scope="col" class="number">
              Refused <small>1 min</small>
            </th>
            <th scope="col" class="number">
              Errors <small>1 min</small>
            </th>
            <th scope="col" class="number">
              p50
            </th>
            <th scope="col" class="number">
              p99
            </th>
            <th scope="col">Last 5 minutes</th>
          </tr>
        </thead>
        <tbody>
          {live.events.map((event) => (
            <Row key={event.event} figures={event} />
          ))}
        </tbody>
      </table>
    </section>
  );
}

function Row({ figures }: { readonly figures: EventFigures }) {
  const { event, rate: rates, refusals, errors, p50Ms, p99Ms, graph } = figures;
  return (
    <tr>
      <th scope="row">
        <code>{event}</code>
      </th>
      <td data-label="Mode">
        <ModeOf figures={figures} />
      </td>
      <td data-label="Legacy per s" class="number">
        {rate(rates.legacy)}
      </td>
      <td data-label="New per s" class="number">
        {rate(rates.new)}
      </td>
      <td data-label="Refused, 1 min" class={refusals > 0 ? 'number some' : 'number'}>
        {count(refusals)}
      </td>
      <td data-label="Errors, 1 min" class={errors > 0 ? 'number wrong' : 'number'}>
        {count(errors)}
      </td>
      <td data-label="p50" class="number">
        {milliseconds(p50Ms)}
      </td>
      <td data-label="p99" class="number">
        {milliseconds(p99Ms)}
      </td>
      <td class="picture">
        <Graph event={event} graph={graph} />
      </td>
    </tr>
  );
}

/** One mode where all namespaces agree, otherwise how many there are of each. */
function ModeOf({ figures }: { readonly figures: EventFigures }) {
  const routes = Object.values(figures.route);
  const [first] = routes;
  if (!first) return <>{NOTHING}</>;
  const shares = new Set(routes.map(({ mode, percent }) => `${mode} ${percent}`));
  if (shares.size === 1) {
    const sole = routes.every((route) => route.sole);
    return (
      <Badge mode={first.mode}>
        {first.percent === null ? `${first.mode}${sole ? ', sole' : ''}` : `canary ${percent(first.percent)}`}
      </Badge>
    );
  }
  const modes = (['legacy', 'canary', 'new'] as const)
    .map((mode) => ({ mode, n: routes.filter((route) => route.mode === mode).length }))
    .filter(({ n }) => n > 0);
  return (
    <span class="badges">
      {modes.map(({ mode, n }) => (
        <Badge key={mode} mode={mode}>
          {mode}
          {routes.length > 1 ? ` × ${n}` : ''}
        </Badge>
      ))}
    </span>
  );
}
