// YAML as nodes, because only they know their lines: maps, words, numbers and lists, each checked, and every problem collected
// instead of the first. Knows nothing of routes.
import {
  type Alias,
  type Document,
  isAlias,
  isMap,
  isScalar,
  isSeq,
  type LineCounter,
  type Node,
  type Pair,
  type Scalar,
  visit,
  type YAMLMap,
  type YAMLSeq,
} from 'yaml';
import { quoted } from './check.js';

export interface Entry {
  readonly key: string;
  /** Where in the text. */
  readonly at: number;
  readonly value: unknown;
}

export class Nodes {
  readonly problems: string[] = [];
  readonly #doc: Document;
  readonly #file: string;
  readonly #lines: LineCounter;
  #targets: ReadonlyMap<Alias, Node> | undefined;

  constructor(doc: Document, file: string, lines: LineCounter) {
    this.#doc = doc;
    this.#file = file;
    this.#lines = lines;
  }

  get root(): unknown {
    return this.#doc.contents;
  }

  problem(at: number, what: string, mend: string): void {
    this.problems.push(`${this.#file}:${this.line(at)}: ${what}; ${mend}`);
  }

  line(at: number): number {
    return Math.max(1, this.#lines.linePos(at).line);
  }

  /** What an alias stands for. */
  resolved(node: unknown): unknown {
    if (!isAlias(node)) return node;
    this.#targets ??= targetsOf(this.#doc);
    return this.#targets.get(node);
  }

  /** The value of a single word or number; undefined for anything else. */
  scalar(node: unknown): unknown {
    const resolved = this.resolved(node);
    return isScalar(resolved) ? resolved.value : undefined;
  }

  isMap(node: unknown): boolean {
    return isMap(this.resolved(node));
  }

  /** What a map holds under a key; undefined where it holds nothing, or is none. */
  value(node: unknown, key: string): unknown {
    const map = this.resolved(node);
    return isMap(map) ? map.get(key, true) : undefined;
  }

  /** The entries of a map, each key once. Nothing at all (`/:` and no more) counts as an empty map. */
  entries(node: unknown, at: number, what: string, mend: string): readonly Entry[] {
    const map = this.resolved(node);
    if (map === null || map === undefined || (isScalar(map) && map.value === null)) return [];
    if (!isMap(map)) {
      this.problem((map as Node).range?.[0] ?? at, `${what} is not a map of keys and values`, mend);
      return [];
    }
    const seen = new Map<string, number>();
    const entries: Entry[] = [];
    for (const pair of map.items as Pair[]) {
      const keyNode = this.resolved(pair.key);
      const keyAt = (pair.key as Node | null)?.range?.[0] ?? at;
      if (!isScalar(keyNode) || typeof keyNode.value !== 'string') {
        this.problem(keyAt, `a key in ${what} is not a word`, 'write a plain name');
        continue;
      }
      const key = keyNode.value;
      const earlier = seen.get(key);
      if (earlier !== undefined) {
        this.problem(
          keyAt,
          `${quoted(key)} is written twice, first on line ${this.line(earlier)}`,
          'remove one of the two',
        );
        continue;
      }
      seen.set(key, keyAt);
      entries.push({ key, at: keyAt, value: pair.value });
    }
    return entries;
  }

  /** A list of texts; what YAML reads as a number or a truth must be quoted, since `007` would come out as 7. */
  texts(node: unknown, at: number, what: string): readonly string[] | undefined {
    const list = this.resolved(node);
    if (!isSeq(list)) {
      this.problem(at, `${what} is no list`, 'write one such as [alice, bob]');
      return undefined;
    }
    const texts: string[] = [];
    for (const item of list.items) {
      const resolved = this.resolved(item);
      if (isScalar(resolved) && typeof resolved.value === 'string') {
        texts.push(resolved.value);
        continue;
      }
      const itemAt = (item as Node | null)?.range?.[0] ?? at;
      const written = isScalar(resolved) ? (resolved.source ?? '') : '';
      if (written === '') this.problem(itemAt, `an entry of ${what} is no word`, 'write an id');
      else this.problem(itemAt, `${quoted(written)} of ${what} is no text to YAML`, `write it in quotes: "${written}"`);
    }
    return texts.length === list.items.length ? texts : undefined;
  }
}

/** By alias, in one walk: asking each alias for its node walks the whole document each time. */
function targetsOf(doc: Document): ReadonlyMap<Alias, Node> {
  const anchors = new Map<string, Node>();
  const targets = new Map<Alias, Node>();
  const anchored = (_key: unknown, node: Scalar | YAMLMap | YAMLSeq) => {
    if (node.anchor !== undefined) anchors.set(node.anchor, node);
  };
  visit(doc, {
    Value: anchored,
    Alias(_key, alias) {
      const target = anchors.get(alias.source);
      if (target) targets.set(alias, target);
    },
  });
  return targets;
}
