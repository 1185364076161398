// Reads PromQL with Prometheus' own grammar: which metrics and labels a query uses. Knows nothing of who asks.
import { parser } from '@prometheus-io/lezer-promql';

/** One `metric{label="value"}` of a query. */
export interface Selector {
  readonly metric: string;
  readonly matchers: readonly { readonly label: string; readonly op: string; readonly value: string }[];
}

export interface Query {
  readonly selectors: readonly Selector[];
  /** Labels of `by (…)` and `on (…)`. */
  readonly grouping: readonly string[];
}

/** @throws where the text is no PromQL, with what could not be read. */
export function readQuery(text: string): Query {
  const selectors: { metric: string; matchers: { label: string; op: string; value: string }[] }[] = [];
  const grouping: string[] = [];
  const at = ({ from, to }: { readonly from: number; readonly to: number }) => text.slice(from, to);
  parser.parse(text).iterate({
    enter(node) {
      if (node.type.isError) throw new Error(`no PromQL at ${node.from}: ${text.slice(node.from)} in ${text}`);
      if (node.name === 'VectorSelector') selectors.push({ metric: '', matchers: [] });
      const current = selectors.at(-1);
      const parent = node.node.parent?.name;
      if (node.name === 'Identifier' && parent === 'VectorSelector' && current) current.metric = at(node);
      if (node.name === 'LabelName' && parent === 'GroupingLabels') grouping.push(at(node));
      if (node.name === 'UnquotedLabelMatcher') {
        const part = (name: string) => {
          const child = node.node.getChild(name);
          if (!child) throw new Error(`a matcher without ${name} in ${text}`);
          return at(child);
        };
        const value = part('StringLiteral').slice(1, -1);
        current?.matchers.push({ label: part('LabelName'), op: part('MatchOp'), value });
      }
    },
  });
  if (selectors.length === 0) throw new Error(`no metric in ${text}`);
  return { selectors, grouping };
}

export interface Scraped {
  /** Labels with the values that were seen, by metric; `_bucket`, `_sum` and `_count` by themselves. */
  readonly metrics: ReadonlyMap<string, ReadonlyMap<string, ReadonlySet<string>>>;
}

/** A page in Prometheus' text format. */
export function readScrape(...pages: readonly string[]): Scraped {
  const metrics = new Map<string, Map<string, Set<string>>>();
  for (const line of pages.flatMap((page) => page.split('\n'))) {
    const [, name, labels = ''] = /^([a-zA-Z_]\w*)(?:\{(.*)\})? \S+/.exec(line) ?? [];
    if (name === undefined) continue;
    const seen = metrics.get(name) ?? new Map<string, Set<string>>();
    metrics.set(name, seen);
    for (const [, label = '', value = ''] of labels.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)) {
      seen.set(label, (seen.get(label) ?? new Set()).add(value));
    }
  }
  return { metrics };
}
