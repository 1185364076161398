#!/usr/bin/env node
// The command `npm run parity:proof`: prints each planted fault and what found it. 0: the suite finds all. 1: it misses one.
// 2: it could not be run. Knows nothing of how faults are planted.
import { join } from 'node:path';
import { Command, InvalidArgumentError } from 'commander';
import { runCommand } from '../command.js';
import { Problem } from '../play/problem.js';
import { readFolder } from '../read.js';
import { endOnSignals } from '../targets/processes.js';
import { packageRoot } from '../targets/root.js';
import { faults } from './faults.js';
import { type Control, type FaultResult, prove } from './proof.js';

interface Flags {
  only?: string;
  scenarios: string;
  all?: boolean;
  lifecycles: number;
  jobs: number;
  abreast: number;
  patience: number;
  seed: number;
}

export async function main(args: readonly string[]): Promise<number> {
  const program = new Command('parity:proof')
    .description('Plants faults into the legacy stub, one after another, and shows which scenarios find each.')
    .option('--only <text>', 'faults whose name has this in it')
    .option('--scenarios <folder>', 'where the scenarios are', join(packageRoot, 'parity', 'scenarios'))
    .option('--all', 'play every scenario on every fault, instead of going on to the next fault when one is found')
    .option('--lifecycles <n>', 'play so many random lifecycles on each fault as well', number, 0)
    .option('--jobs <n>', 'play so many at once on each fault', number, 16)
    .option('--abreast <n>', 'so many faults at once', number, 3)
    .option('--patience <ms>', 'longest wait for an acknowledgement or an event', number, 4_000)
    .option('--seed <n>', 'decides races and lifecycles', number, 1);
  return runCommand<Flags>(program, args, run);
}

async function run({ only = '', scenarios: folder, all = false, ...flags }: Flags): Promise<number> {
  const { scenarios, problems } = readFolder(folder);
  if (problems.length > 0) throw new Problem(problems.join('\n'));
  const chosen = faults.filter(({ name }) => name.includes(only));
  if (chosen.length === 0) throw new Problem(`no fault has "${only}" in its name`);
  const width = Math.max(...chosen.map(({ name }) => name.length));
  const started = performance.now();
  const results = await prove({
    ...flags,
    faults: chosen,
    scenarios,
    all,
    patienceMs: flags.patience,
    onControl: (control) => out(controlText(control)),
    onFault: (result) => out(faultText(result, width, flags.lifecycles)),
  });
  const missed = results.filter(({ caughtBy }) => caughtBy.size === 0);
  const seconds = ((performance.now() - started) / 1_000).toFixed(0);
  out(`\n${results.length - missed.length} of ${results.length} planted faults found, in ${seconds} s`);
  for (const { fault } of missed) out(`✗ missed: ${fault.name} (${fault.what})`);
  return missed.length > 0 ? 1 : 0;
}

function controlText({ sound, unsound, left, ms }: Control): string {
  const lines = [`${sound.length} scenarios are as expected on the sound stub (${(ms / 1_000).toFixed(1)} s)`];
  for (const [name, why] of unsound) lines.push(`– proves nothing: ${name}, it fails there too: ${why.slice(0, 200)}`);
  if (left.length > 0) lines.push(`– left out, they need more than a stub: ${left.join(', ')}`);
  return `${lines.join('\n')}\n`;
}

function faultText({ fault, caughtBy, played, lifecycles, ms }: FaultResult, width: number, asked: number): string {
  const names = [...caughtBy.keys()];
  const shown = names.length > 4 ? `${names.slice(0, 4).join(', ')} and ${names.length - 4} more` : names.join(', ');
  const found = names.length > 0 ? `${names.length} of ${played} scenarios: ${shown}` : `none of ${played} scenarios`;
  const random =
    asked === 0
      ? ''
      : `; ${lifecycles === undefined ? fault.beyondLifecycles : `${lifecycles} of ${asked} lifecycles`}`;
  return `${names.length > 0 ? '✓' : '✗'} ${fault.name.padEnd(width)}  ${found}${random} (${(ms / 1_000).toFixed(1)} s)`;
}

const out = (text: string): void => void process.stdout.write(`${text}\n`);

function number(text: string): number {
  const value = Number(text);
  if (!Number.isInteger(value) || value < 0) throw new InvalidArgumentError('It must be a whole number.');
  return value;
}

endOnSignals();
process.exit(await main(process.argv.slice(2)));
