// What needs an operator now: a guard that tripped, a log that can't be written, a broken routes file, an instance that is not ready.
// Knows nothing of how it is mended beyond the words it is given.
import type { GuardBody, LiveBody, StatusBody } from '../api.js';
import { guardTripped } from './format.js';
import { useShared } from './shared.js';

export function Alerts({ status }: { readonly status: StatusBody | null }) {
  const { live, now } = useShared();
  const tripped = live.guard.filter(({ state }) => state === 'tripped');
  const isSole = ({ ns, group }: GuardBody) =>
    live.events.some((event) => event.group === group && event.route[ns]?.sole === true);
  const down = status?.legacy.filter(({ reachable }) => !reachable) ?? [];
  const lines = [
    ...tripped.map((guard) => ({
      key: `guard ${guard.ns} ${guard.group}`,
      ...guardTripped(guard, isSole(guard), now),
    })),
    ...(live.routes.problem ? [{ key: 'log', title: 'Route log:', text: live.routes.problem }] : []),
    ...fileAlert(live.routes.fileProblems),
    ...readyAlert(status),
    ...down.map(({ url }) => ({ key: url, title: 'Legacy not reachable:', text: url })),
  ];
  // Always there, so that a screen reader hears what comes later.
  return (
    <div role="status" class="alerts">
      {lines.map(({ key, title, text }) => (
        <p key={key} class="bar boxed warn">
          <strong>{title}</strong> {text}
        </p>
      ))}
    </div>
  );
}

function readyAlert(status: StatusBody | null) {
  if (!status || status.reasons.length === 0) return [];
  return [{ key: 'ready', title: status.ready ? 'Ready, but:' : 'Not ready:', text: status.reasons.join('; ') }];
}

/** Of a file with many faults the first ones. */
const SHOWN = 3;

function fileAlert(problems: LiveBody['routes']['fileProblems']) {
  if (problems.length === 0) return [];
  const more = problems.length > SHOWN ? ` (and ${problems.length - SHOWN} more)` : '';
  const text = `${problems.slice(0, SHOWN).join('; ')}${more}`;
  return [{ key: 'file', title: 'The routes file is not in force:', text }];
}
