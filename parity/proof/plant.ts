// Plants a fault: a copy of the compiled legacy stub with the fault's edits in it, started as a process of its own. Knows
// nothing of how faults are found.
import { cpSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { mkdtemp } from 'node:fs/promises';
import { join } from 'node:path';
import { Problem } from '../play/problem.js';
import { type Process, startProcess } from '../targets/processes.js';
import { packageRoot } from '../targets/root.js';
import type { Edit, Fault } from './faults.js';

/** The stub's code with a fault in it. @throws Problem where an edit does not fit exactly once. */
export function planted(code: string, { name, edits }: Pick<Fault, 'name' | 'edits'>): string {
  return edits.reduce((text, { at, to }) => {
    const places = [...text.matchAll(patternOf(at))];
    if (places.length !== 1) {
      const times = places.length === 0 ? 'is not' : `is ${places.length} times`;
      throw new Problem(
        `the fault ${name} no longer fits the stub: "${at}" ${times} in calls; mend parity/proof/faults.ts`,
      );
    }
    const [place] = places;
    const from = place?.index ?? 0;
    return text.slice(0, from) + to + text.slice(from + (place?.[0].length ?? 0));
  }, code);
}

/** The compiler breaks lines where it likes. */
const patternOf = (at: Edit['at']): RegExp =>
  new RegExp(
    at
      .trim()
      .split(/\s+/)
      .map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'))
      .join('\\s+'),
    'g',
  );

export interface Planted extends Process {
  readonly url: string;
}

/** `fault` undefined: the stub as it is, for control. The copy is removed when the process is killed. */
export async function startPlanted(fault: Fault | undefined, args: readonly string[]): Promise<Planted> {
  // Beside the original, so that it finds the same dependencies.
  const folder = await mkdtemp(join(packageRoot, 'dist', 'parity-planted-'));
  const remove = () => rmSync(folder, { recursive: true, force: true });
  process.once('exit', remove);
  const done = () => {
    process.off('exit', remove);
    remove();
  };
  try {
    cpSync(join(packageRoot, 'dist', 'legacy-stub'), folder, { recursive: true });
    const file = join(folder, 'calls.js');
    if (fault) writeFileSync(file, planted(readFileSync(file, 'utf8'), fault));
    const stub = await startProcess(join(folder.slice(join(packageRoot, 'dist').length + 1), 'cli.js'), args);
    return {
      ...stub,
      url: stub.ready,
      async kill() {
        await stub.kill();
        done();
      },
    };
  } catch (error) {
    done();
    throw error;
  }
}
