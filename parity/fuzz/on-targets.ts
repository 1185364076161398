// Plays a generated lifecycle on a target, as the runner plays a scenario. Knows nothing of what it should lead to.
import { type Played, play } from '../play/play.js';
import { randomOf } from '../run.js';
import type { Identity } from '../targets/identity.js';
import type { PathName, Targets } from '../targets/targets.js';
import type { Scripted } from './moves.js';

export interface Stage {
  readonly targets: Targets;
  readonly identity: Identity;
  readonly barrierEvent: string;
  readonly patienceMs: number;
  /** Of this run: part of every user's id. */
  readonly run: string;
}

export function onTargets({ targets, identity, run, ...same }: Stage) {
  return (script: Scripted, path: PathName, id: string): Promise<Played> =>
    targets.use(path, new Set(), (target) =>
      play(script.play, target, {
        ...same,
        transport: 'websocket', // of a device that names none; here each does
        identity,
        rejoinTimeoutMs: targets.rejoinTimeoutMs,
        quietMs: 0,
        random: randomOf(1), // nothing happens in the same moment
        suffix: `${run}${id}`,
      }),
    );
}
