// Holds what is in deploy/ to the metrics that really exist: every query is PromQL, every metric, label and value that it names
// is scraped from a proxy under traffic, and what is shown of a series is one of its labels.
import { readFileSync } from 'node:fs';
import { beforeAll, describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import type { InstanceId } from '../../src/base/ids.js';
import { createSignals } from '../../src/telemetry/create.js';
import { createLogger } from '../../src/telemetry/log.js';
import { startMetrics } from '../../src/telemetry/metrics.js';
import { type Query, readQuery, readScrape, type Scraped } from './promql.js';
import { scrapeAfterTraffic, scrapeOfInstances } from './traffic.js';

const read = (path: string) => readFileSync(new URL(`../../deploy/${path}`, import.meta.url), 'utf8');

interface Panel {
  readonly id: number;
  readonly type: string;
  readonly title: string;
  readonly datasource?: { readonly uid: string };
  readonly gridPos: { readonly h: number; readonly w: number; readonly x: number; readonly y: number };
  readonly targets?: readonly { readonly refId: string; readonly expr: string; readonly legendFormat: string }[];
}
interface Dashboard {
  readonly uid: string;
  readonly panels: readonly Panel[];
  readonly templating: {
    readonly list: readonly {
      readonly name: string;
      readonly type: string;
      readonly query: string | { query: string };
    }[];
  };
  readonly annotations: { readonly list: readonly { readonly expr: string; readonly textFormat: string }[] };
}
interface Rule {
  readonly alert: string;
  readonly expr: string;
  readonly for?: string;
  readonly labels: { readonly severity: string };
  readonly annotations: { readonly summary: string; readonly description: string };
}

const dashboard = JSON.parse(read('grafana/sigfig.json')) as Dashboard;
const { groups } = parse(read('prometheus/alerts.yaml')) as { groups: { rules: Rule[] }[] };
const rules = groups.flatMap((group) => group.rules);

/** What Grafana puts in for its variables. */
const filled = (expr: string): string =>
  expr.replaceAll('$__rate_interval', '1m').replaceAll('"$job"', '"sigfig"').replaceAll('"$instance"', '".*"');

/** Labels that Prometheus adds to whatever it scrapes, and `up`, which it makes itself. */
const ofTheScrape = ['job', 'instance'];
const made = 'up';

/** Faults that nobody can cause from outside, or not soon: told as the parts would tell them. */
const cannotBeCaused = [
  'sigfig_internal_errors_total',
  'sigfig_bounds_reached_total',
  'sigfig_instances_takeover_duration',
];
async function scrapeOfFaults(): Promise<string> {
  const metrics = await startMetrics({
    listen: { host: '127.0.0.1', port: 0, path: '/metrics' },
    version: '0',
    onError: (error) => {
      throw error;
    },
  });
  const signals = createSignals({ logger: createLogger({ level: 'silent' }), meter: metrics.meter });
  signals.internalError('serving call-offer', new Error('broken'));
  signals.bound('held', { event: 'call-offer' });
  signals.instanceDied('a-1' as InstanceId, 1, 1);
  const text = await (await fetch(metrics.url)).text();
  await metrics.close();
  return text
    .split('\n')
    .filter((line) => cannotBeCaused.some((name) => line.startsWith(name)))
    .join('\n');
}

let scraped: Scraped;
beforeAll(async () => {
  scraped = readScrape(await scrapeAfterTraffic(), await scrapeOfInstances(), await scrapeOfFaults());
}, 60_000);

/** Every metric, label and value of a query exists; answers the labels that its result may have. */
function check(expr: string): readonly string[] {
  const query = readQuery(filled(expr));
  const labels = new Set(ofTheScrape);
  for (const { metric, matchers } of query.selectors) {
    if (metric === made) continue;
    const seen = scraped.metrics.get(metric);
    expect([...scraped.metrics.keys()], `a metric of: ${expr}`).toContain(metric);
    for (const label of seen?.keys() ?? []) labels.add(label);
    for (const { label, op, value } of matchers) {
      if (ofTheScrape.includes(label)) continue;
      expect([...(seen?.keys() ?? [])], `a label of ${metric} in: ${expr}`).toContain(label);
      const values = op.endsWith('~') ? value.split('|') : [value];
      for (const one of values) expect([...(seen?.get(label) ?? [])], `a value of ${label} in: ${expr}`).toContain(one);
    }
  }
  for (const label of query.grouping) expect([...labels], `a group of: ${expr}`).toContain(label);
  return resultLabels(query, [...labels]);
}

/** Where anything is grouped, only what it is grouped by is sure to be left. */
const resultLabels = ({ grouping }: Query, all: readonly string[]) => (grouping.length > 0 ? grouping : all);

const shown = (text: string, pattern: RegExp): readonly string[] =>
  [...text.matchAll(pattern)].map(([, name = '']) => name);

describe('the Grafana dashboard', () => {
  const panels = dashboard.panels.filter(({ type }) => type !== 'row');

  it('asks for what is there, and shows labels that are there', () => {
    const queries = panels.flatMap(({ targets = [] }) => targets);
    expect(queries.length).toBeGreaterThan(30);
    for (const { expr, legendFormat } of queries) {
      const labels = check(expr);
      for (const name of shown(legendFormat, /\{\{(\w+)\}\}/g))
        expect(labels, `the legend of: ${expr}`).toContain(name);
    }
    for (const { expr, textFormat } of dashboard.annotations.list) {
      const labels = check(expr);
      for (const name of shown(textFormat, /\{\{(\w+)\}\}/g)) expect(labels, `the text of: ${expr}`).toContain(name);
    }
  });

  it('finds its jobs and instances by a metric that is there', () => {
    for (const { type, query } of dashboard.templating.list) {
      if (type === 'datasource') continue;
      const [, selector = '', label = ''] =
        /^label_values\((.*), (\w+)\)$/.exec(typeof query === 'string' ? query : query.query) ?? [];
      check(selector);
      expect(ofTheScrape).toContain(label);
    }
  });

  it('shows every metric', () => {
    const used = new Set(
      panels.flatMap(({ targets = [] }) =>
        targets.flatMap(({ expr }) => readQuery(filled(expr)).selectors.map(({ metric }) => metric)),
      ),
    );
    const documented = [
      ...readFileSync(new URL('../../docs/metrics.md', import.meta.url), 'utf8').matchAll(/^\| `(\w+)`/gm),
    ];
    const missing = documented
      .map(([, name = '']) => name)
      .filter((name) => !used.has(name) && !used.has(`${name}_bucket`));
    expect(missing).toEqual(['process_uptime']);
  });

  it('uses the data source that is chosen, only the variables that it has, and each id once', () => {
    const variables = dashboard.templating.list.map(({ name }) => name);
    for (const { datasource, targets = [] } of panels) {
      expect(datasource?.uid).toMatch(/^\$\{datasource\}$/);
      for (const { expr } of targets) {
        for (const name of shown(expr, /\$(\w+)/g)) expect([...variables, '__rate_interval']).toContain(name);
      }
    }
    const ids = dashboard.panels.map(({ id }) => id);
    expect(new Set(ids).size).toBe(ids.length);
  });

  it('lays no panel over another, or out of the page', () => {
    const taken = new Map<string, string>();
    for (const { title, gridPos: at } of dashboard.panels) {
      expect(at.x + at.w, title).toBeLessThanOrEqual(24);
      for (let x = at.x; x < at.x + at.w; x++) {
        for (let y = at.y; y < at.y + at.h; y++) {
          expect(taken.get(`${x},${y}`), title).toBeUndefined();
          taken.set(`${x},${y}`, title);
        }
      }
    }
  });
});

describe('the alert rules', () => {
  it.each(rules.map((rule) => [rule.alert, rule] as const))(
    '%s asks for what is there, and says what to do',
    (_, rule) => {
      const labels = check(rule.expr);
      const { summary, description } = rule.annotations;
      for (const name of shown(summary + description, /\$labels\.(\w+)/g)) {
        expect(labels, `a label in the text of ${rule.alert}`).toContain(name);
      }
      expect(['critical', 'warning', 'info']).toContain(rule.labels.severity);
      expect(rule.for ?? '0s').toMatch(/^\d+[smh]$/);
      expect(description.length).toBeGreaterThan(40);
    },
  );

  it('are named once each', () => {
    expect(new Set(rules.map(({ alert }) => alert)).size).toBe(rules.length);
    expect(rules.length).toBeGreaterThan(10);
  });
});

describe('the checks themselves', () => {
  it.each([
    ['sigfig_no_such_metric', /a metric of/],
    ['sigfig_calls{nosuch="x"}', /a label of sigfig_calls/],
    ['sigfig_calls{state="NOWHERE"}', /a value of state/],
    ['sum by (nosuch) (sigfig_calls)', /a group of/],
    ['sum by (state (sigfig_calls)', /no PromQL/],
  ])('find fault with %s', (expr, fault) => {
    expect(() => check(expr)).toThrow(fault);
  });
});
