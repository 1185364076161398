// A log that a test breaks, holds back, or lets others append to.
import type { RouteVersion } from '../routing/change.js';
import type { RouteLog } from './control.js';

export interface TestLog extends RouteLog {
  /** What is durable. */
  readonly lines: RouteVersion[];
  /** Appending fails with this while it is set. */
  broken: Error | null;
  /** Appends wait while it is held; `release` lets them go on. */
  hold(): { release(): void };
  /** Another process appends a version behind the newest. */
  foreign(make: (number: number, newest: RouteVersion | undefined) => RouteVersion): void;
}

export function testLog(lines: RouteVersion[] = []): TestLog {
  let known = lines.length;
  let held: Promise<void> | undefined;
  const log: TestLog = {
    where: 'test.jsonl',
    lines,
    broken: null,
    hold() {
      let release = () => undefined as unknown;
      held = new Promise((resolve) => {
        release = () => {
          held = undefined;
          resolve();
        };
      });
      return { release: () => void release() };
    },
    foreign(make) {
      lines.push(make((lines.at(-1)?.version ?? 0) + 1, lines.at(-1)));
    },
    async read() {
      known = lines.length;
      return { versions: [...lines], last: lines.at(-1)?.version ?? 0, problems: [] };
    },
    async older(limit, before) {
      return lines
        .filter(({ version }) => version < before)
        .slice(-limit)
        .reverse();
    },
    async append(version) {
      await held;
      if (log.broken) throw log.broken;
      if (lines.length > known) {
        const conflict = lines.slice(known);
        known = lines.length;
        return { conflict };
      }
      if (version.version <= (lines.at(-1)?.version ?? 0)) throw new Error(`${version.version} is taken already`);
      lines.push(version);
      known = lines.length;
      return {};
    },
    close: async () => undefined,
  };
  return log;
}

export const full = (): Error => Object.assign(new Error('no space'), { code: 'ENOSPC' });
