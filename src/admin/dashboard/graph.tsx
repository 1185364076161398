// The last minutes of one event as a small picture: events on each path stacked, a mark where some were
// refused. Knows only numbers.
import type { EventFigures } from '../api.js';
import { area, HEIGHT, marks, WIDTH } from './drawing.js';
import { count, duration, rate } from './format.js';

interface Props {
  readonly event: string;
  readonly graph: EventFigures['graph'];
}

export function Graph({ event, graph }: Props) {
  const steps = Math.max(graph.legacy.length, graph.new.length, 2);
  const legacy = padded(graph.legacy, steps);
  const served = padded(graph.new, steps);
  const refused = padded(graph.refused, steps);
  const totals = legacy.map((n, i) => n + (served[i] ?? 0));
  const peak = Math.max(0, ...totals);
  const top = Math.max(peak, ...refused, 1);
  const perSecond = (n: number) => rate((n * 1000) / graph.stepMs);
  const none = totals.map(() => 0);
  const label =
    `${event}, the last ${duration(steps * graph.stepMs)}: at most ${perSecond(peak)} a second; ` +
    `${count(sum(legacy))} on legacy, ${count(sum(served))} on new, ${count(sum(refused))} refused`;
  return (
    <div class="graph">
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label={label}>
        <path class="legacy" d={area(served, totals, top)} />
        <path class="new" d={area(none, served, top)} />
        {sum(refused) > 0 && <path class="refused" d={marks(refused, top)} />}
      </svg>
      <span class="peak" aria-hidden="true">
        {perSecond(peak)}/s
      </span>
    </div>
  );
}

const sum = (all: readonly number[]) => all.reduce((total, n) => total + n, 0);
/** Older steps that are not there yet are none. */
const padded = (all: readonly number[], length: number) => [...new Array<number>(length - all.length).fill(0), ...all];
