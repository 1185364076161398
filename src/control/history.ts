// The newest versions of the route table in memory, within a bound of number and size. Knows no log.
import { isDeepStrictEqual } from 'node:util';
import type { RouteVersion } from '../routing/change.js';
import { tableOf } from '../routing/check.js';
import type { RouteTable } from '../routing/route.js';
import { MOST_CHARACTERS, MOST_IN_MEMORY } from './file-log.js';

export class History {
  /** The highest number in the log; over the newest version's only where that one could not be understood. */
  last = 0;
  readonly #versions: RouteVersion[] = [];
  readonly #sizes: number[] = [];
  #characters = 0;

  /** Found in the log, or written to it. False: it was there before. */
  logged(version: RouteVersion): boolean {
    if (version.version <= this.last) return false;
    this.last = version.version;
    this.push(version);
    return true;
  }

  push(version: RouteVersion): void {
    const previous = this.#versions.at(-1);
    // What one version makes is what the next one starts from: kept once.
    const shared =
      previous && isDeepStrictEqual(previous.after, version.before) ? { ...version, before: previous.after } : version;
    const size = JSON.stringify(version).length;
    this.#versions.push(shared);
    this.#sizes.push(size);
    this.#characters += size;
    while (
      this.#versions.length > 1 &&
      (this.#versions.length > MOST_IN_MEMORY || this.#characters > MOST_CHARACTERS)
    ) {
      this.#versions.shift();
      this.#characters -= this.#sizes.shift() ?? 0;
    }
  }

  /** Oldest first. */
  all(): readonly RouteVersion[] {
    return [...this.#versions];
  }

  /** These instead. */
  reset(versions: readonly RouteVersion[]): void {
    this.#versions.length = 0;
    this.#sizes.length = 0;
    this.#characters = 0;
    for (const version of versions) this.push(version);
  }

  find(version: number): RouteVersion | undefined {
    return this.#versions.find((one) => one.version === version);
  }

  /** Newest first. */
  below(before: number, limit: number): readonly RouteVersion[] {
    const upTo = this.#versions.findLastIndex(({ version }) => version < before) + 1;
    return this.#versions.slice(Math.max(0, upTo - limit), upTo).reverse();
  }

  get newest(): RouteVersion | undefined {
    return this.#versions.at(-1);
  }

  get oldest(): RouteVersion | undefined {
    return this.#versions[0];
  }
}

/** The table of a version that was checked when it was read. */
export function known(version: RouteVersion): RouteTable {
  const read = tableOf(version.after);
  if (!read.ok) throw new Error(`version ${version.version} holds no route table: ${read.problems[0]}`);
  return read.table;
}

export const same = (a: RouteTable, b: RouteTable): boolean => isDeepStrictEqual(a.toJSON(), b.toJSON());
