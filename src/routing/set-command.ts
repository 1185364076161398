// The command line that makes a change of one group, for lines that say what works: whatever was given stands in it. Knows
// nothing of what a change does, nor whether this one is taken.
import { shownDuration } from './duration.js';
import type { GuardLimits, RouteInput } from './route.js';

/** A line about a fault stays one that can be read; a longer list is one for a routes file. */
const LONGEST = 1_000;

/** Null where no command line says it: a name holds a comma or what no terminal shows, or the lists are too long. */
export function setCommand(ns: string, target: string, input: RouteInput): string | null {
  const { mode, canary, sole, fallback, guard } = input;
  const words = ['sigfig routes set', shellWord(target), shellWord(mode)];
  const flag = (name: string, value: string | undefined): void => {
    if (value !== undefined) words.push(name, shellWord(value));
  };
  const lists = [
    ['--users', canary?.users],
    ['--conversations', canary?.conversations],
    ['--exclude-users', canary?.exclude?.users],
    ['--exclude-conversations', canary?.exclude?.conversations],
  ] as const;
  if (ns !== '/') flag('--namespace', ns);
  flag('--percent', canary?.percent?.toString());
  for (const [name, ids] of lists) {
    if (ids?.some((id) => id === '' || id.includes(',') || id !== id.trim())) return null;
    flag(name, ids?.join(','));
  }
  flag('--salt', canary?.salt);
  if (sole !== undefined) words.push(sole ? '--sole' : '--no-sole');
  flag('--fallback', fallback);
  flag('--guard', guard === null ? 'off' : guard && limitsOf(guard));
  const command = words.join(' ');
  return command.length > LONGEST || UNSHOWN.test(command) ? null : command;
}

/** Control characters, and what looks like nothing or turns a line around. */
const UNSHOWN = /[\p{C}\p{Zl}\p{Zp}]/u;

/** As a shell reads it back. */
const shellWord = (text: string): string => (/^[\w./:,-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

const limitsOf = ({ windowMs, minSamples, maxErrors, maxRefusals, maxP99Ms }: GuardLimits): string =>
  `window=${shownDuration(windowMs)},min-samples=${minSamples},max-errors-percent=${percentOf(maxErrors)},` +
  `max-refusals-percent=${percentOf(maxRefusals)},max-p99=${shownDuration(maxP99Ms)}`;

/** Two decimals, without what multiplication leaves behind. */
const percentOf = (share: number): number => Number((share * 100).toFixed(2));
