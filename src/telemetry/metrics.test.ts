import { readFileSync } from 'node:fs';
import { afterEach, describe, expect, test } from 'vitest';
import type { ConversationId, Namespace } from '../base/ids.js';
import { createSignals } from './create.js';
import { createLogger } from './log.js';
import { type Gauges, type Metrics, startMetrics } from './metrics.js';
import type { Signals } from './signals.js';

const running: Metrics[] = [];
afterEach(async () => {
  for (const metrics of running.splice(0)) await metrics.close();
});

async function started(
  gauges: Gauges = {},
): Promise<{ metrics: Metrics; signals: Signals; scrape(): Promise<string> }> {
  const metrics = await startMetrics({
    listen: { host: '127.0.0.1', port: 0, path: '/metrics' },
    version: '1.2.3',
    onError: (error) => {
      throw error;
    },
  });
  running.push(metrics);
  const signals = createSignals({ logger: createLogger({ level: 'silent' }), meter: metrics.meter, gauges });
  return { metrics, signals, scrape: async () => (await fetch(metrics.url)).text() };
}

/** The value of one series; undefined where it isn't there. */
function value(text: string, name: string, labels: Readonly<Record<string, string>> = {}): number | undefined {
  for (const line of text.split('\n')) {
    const match = /^(\w+)(?:\{(.*)\})? (\S+)$/.exec(line);
    if (match?.[1] !== name) continue;
    const found = Object.fromEntries([...(match[2] ?? '').matchAll(/(\w+)="([^"]*)"/g)].map((m) => [m[1], m[2]]));
    if (Object.entries(labels).every(([label, wanted]) => found[label] === wanted)) return Number(match[3]);
  }
  return undefined;
}

/** Every signal once, as a process would give them. */
function everything(signals: Signals): void {
  signals.counters.forwardedUp += 7;
  signals.counters.forwardedDown += 9;
  signals.connectionOpened('polling');
  signals.connectionOpened('websocket');
  signals.connectionUpgraded();
  signals.connectionClosed('websocket', 'browser');
  signals.foreignProtocol(1);
  signals.unverified(1, 'signature');
  signals.decided('call-offer', { path: 'new', because: 'route' }, '/');
  signals.decided('call-offer', { path: 'new', because: 'route' }, '/');
  signals.decided('call-offer', { path: 'legacy', because: 'callee-not-here' }, '/');
  signals.refused('call-answer', 'no-offer', '/');
  signals.served('call-offer', 0.4, '/');
  signals.served('call-offer', 3, '/');
  signals.offerAnswered(4_000);
  signals.ticket('granted', 12);
  signals.transition({
    ns: '/' as Namespace,
    conversationId: 'c' as ConversationId,
    callId: 'k',
    from: 'IDLE',
    to: 'OFFERING',
    because: 'offered',
    event: 'call-offer',
  });
  signals.began({
    ns: '/' as Namespace,
    conversationId: 'c' as ConversationId,
    callId: 'k',
    decision: { path: 'new', because: 'canary' },
  });
  signals.routesChanged({ version: 3, kind: 'set', actor: 'ann', reason: 'r', summary: '/: all' });
  signals.routesLog('the disk is full');
  signals.guardTripped('/', 'call-lifecycle', 'figures', true);
  signals.operatorRefused('unauthorized', 'no token');
  signals.candidateDropped('buffer-full');
  signals.bound('inject-overflow', { bytes: 1 });
  signals.routesLoaded('routes.yaml', '/: all', true);
  signals.routesRejected('routes.yaml', ['routes.yaml:1: wrong; mend it']);
  signals.legacyUp('http://127.0.0.1:3000');
  signals.legacyDown('http://127.0.0.1:3000', 'ECONNREFUSED');
  signals.legacyDown('http://127.0.0.1:3000', 'ECONNREFUSED');
  signals.redis(true, 'answers');
  signals.redis(false, 'the connection broke');
  signals.instanceDied('b-abcdefgh.1', 7, 120);
  signals.fenced('a-abcdefgh.1', 'a-abcdefgh.2', 2);
  signals.clock(-2_500, true);
  signals.unreadable('sigfig:session:{x}', 'cut short');
  signals.drained('begun', 12);
  signals.message('out', 'call', 300);
  signals.message('out', 'call', 200);
  signals.roundTrip('renew', 0.4);
  signals.internalError('step', new Error('broken'));
}

const fullGauges: Gauges = {
  callsByState: () => ({ OFFERING: 2, CONNECTED: 1 }),
  guard: () => [
    { ns: '/', group: 'call-lifecycle', state: 'tripped' },
    { ns: '/', group: 'ice-candidate', state: 'off' },
  ],
  sizes: { claims: () => 5 },
  cluster: () => ({ instances: 3, mayAct: true, leads: false, ahead: -1_500 }),
};

describe('what is scraped', () => {
  test('tells what happened', async () => {
    const { signals, scrape } = await started(fullGauges);
    everything(signals);
    const text = await scrape();
    expect(value(text, 'sigfig_packets_forwarded_total', { direction: 'up' })).toBe(7);
    expect(value(text, 'sigfig_packets_forwarded_total', { direction: 'down' })).toBe(9);
    expect(value(text, 'sigfig_connections', { transport: 'websocket' })).toBe(1);
    expect(value(text, 'sigfig_connections', { transport: 'polling' })).toBe(0);
    expect(value(text, 'sigfig_connections_closed_total', { transport: 'websocket', cause: 'browser' })).toBe(1);
    const offer = { event: 'call-offer', path: 'new', because: 'route' };
    expect(value(text, 'sigfig_events_decided_total', offer)).toBe(2);
    expect(value(text, 'sigfig_events_refused_total', { event: 'call-answer', code: 'no-offer' })).toBe(1);
    expect(value(text, 'signaling_served_duration_count', { event: 'call-offer' })).toBe(2);
    expect(value(text, 'signaling_served_duration_bucket', { event: 'call-offer', le: '0.0005' })).toBe(1);
    expect(value(text, 'signaling_offer_answer_duration_sum')).toBe(4);
    expect(value(text, 'signaling_ticket_duration_count', { outcome: 'granted' })).toBe(1);
    expect(value(text, 'sigfig_calls', { state: 'OFFERING' })).toBe(2);
    expect(value(text, 'sigfig_calls_began_total', { path: 'new', because: 'canary' })).toBe(1);
    expect(value(text, 'sigfig_routes_version')).toBe(3);
    expect(value(text, 'sigfig_routes_changes_total', { kind: 'set' })).toBe(1);
    expect(value(text, 'sigfig_routes_log_faults_total')).toBe(1);
    expect(value(text, 'sigfig_guard_tripped_total', { group: 'call-lifecycle' })).toBe(1);
    const guarded = { ns: '/', group: 'call-lifecycle' };
    expect(value(text, 'sigfig_guard_state', { ...guarded, state: 'tripped' })).toBe(1);
    expect(value(text, 'sigfig_guard_state', { ...guarded, state: 'well' })).toBe(0);
    expect(value(text, 'sigfig_guard_state', { group: 'ice-candidate' })).toBeUndefined();
    expect(value(text, 'sigfig_held', { what: 'claims' })).toBe(5);
    expect(value(text, 'sigfig_legacy_up')).toBe(0);
    expect(value(text, 'sigfig_legacy_lost_total')).toBe(1);
    expect(value(text, 'sigfig_instances')).toBe(3);
    expect(value(text, 'sigfig_lease')).toBe(1);
    expect(value(text, 'sigfig_leads')).toBe(0);
    expect(value(text, 'sigfig_clock_ahead')).toBe(-1.5);
    expect(value(text, 'sigfig_instances_died_total')).toBe(1);
    expect(value(text, 'sigfig_instances_died_calls_total')).toBe(7);
    expect(value(text, 'sigfig_instances_takeover_duration_sum')).toBeCloseTo(0.12);
    expect(value(text, 'sigfig_fenced_total')).toBe(1);
    expect(value(text, 'sigfig_drains_total', { what: 'begun' })).toBe(1);
    expect(value(text, 'sigfig_drains_total', { what: 'done' })).toBe(0);
    expect(value(text, 'sigfig_messages_total', { way: 'out', topic: 'call' })).toBe(2);
    expect(value(text, 'sigfig_messages_bytes_total', { way: 'out', topic: 'call' })).toBe(500);
    expect(value(text, 'sigfig_redis_up')).toBe(0);
    expect(value(text, 'sigfig_redis_lost_total')).toBe(1);
    expect(value(text, 'sigfig_redis_unreadable_total')).toBe(1);
    expect(value(text, 'sigfig_redis_duration_count', { name: 'renew' })).toBe(1);
    expect(value(text, 'sigfig_build', { version: '1.2.3' })).toBe(1);
    expect(value(text, 'process_memory', { kind: 'rss' })).toBeGreaterThan(1_000_000);
    expect(value(text, 'process_uptime')).toBeGreaterThan(0);
  });

  test('docs/metrics.md names every metric with its labels, and none that is not there', async () => {
    const { signals, scrape } = await started(fullGauges);
    everything(signals);
    let names: string[] = [];
    let text = '';
    // The event loop's delay shows once it was sampled, 10 ms after the start.
    await expect
      .poll(async () => {
        text = await scrape();
        names = [...text.matchAll(/^# TYPE (\w+) /gm)].map((match) => match[1] ?? '');
        return names;
      })
      .toContain('process_eventloop_delay');
    const page = readFileSync(new URL('../../docs/metrics.md', import.meta.url), 'utf8');
    const documented = [...page.matchAll(/^\| `(\w+)` \| ([^|]*)\|/gm)].map(([, name = '', labels = '']) => ({
      name,
      labels: [...labels.matchAll(/`(\w+)`/g)].map(([, label]) => label),
    }));
    expect(documented.map(({ name }) => name).toSorted()).toEqual(
      names.filter((name) => name !== 'target_info').toSorted(),
    );
    for (const { name, labels } of documented) {
      const [, series = ''] = new RegExp(`^${name}(?:_bucket)?(?:\\{(.*)\\})? `, 'm').exec(text) ?? [];
      const scraped = [...series.matchAll(/(\w+)="/g)].map(([, label]) => label);
      expect({ name, labels: labels.toSorted() }).toEqual({
        name,
        labels: scraped.filter((label) => label !== 'le').toSorted(),
      });
    }
  });

  test('rare changes show from the start, so that the first one is an increase', async () => {
    const { scrape } = await started();
    const text = await scrape();
    for (const kind of ['start', 'file', 'set', 'apply', 'rollback', 'legacy', 'guard']) {
      expect(value(text, 'sigfig_routes_changes_total', { kind })).toBe(0);
    }
    expect(value(text, 'sigfig_routes_loads_total', { outcome: 'rejected' })).toBe(0);
    expect(value(text, 'sigfig_guard_tripped_total', { group: 'ice-candidate' })).toBe(0);
  });

  test('event names that a browser made up are one series', async () => {
    const { signals, scrape } = await started();
    for (let i = 0; i < 2_000; i++) {
      signals.decided(`made-up-${i}`, { path: 'legacy', because: 'default' }, '/');
      signals.served(`made-up-${i}`, 1, '/');
    }
    const text = await scrape();
    expect(value(text, 'sigfig_events_decided_total', { event: 'other' })).toBe(2_000);
    expect(text.match(/^sigfig_events_decided_total/gm)).toHaveLength(1);
    expect(value(text, 'signaling_served_duration_count', { event: 'other' })).toBe(2_000);
  });

  test('labels without end end at a bound, and nothing is lost', async () => {
    const { signals, scrape } = await started();
    for (let i = 0; i < 2_000; i++) signals.bound(`bound-${i}`, {});
    const text = await scrape();
    const lines = text.match(/^sigfig_bounds_reached_total.*$/gm) ?? [];
    expect(lines.length).toBeLessThan(600);
    expect(lines.map((line) => Number(line.split(' ').at(-1))).reduce((a, b) => a + b, 0)).toBe(2_000);
    expect(value(text, 'sigfig_bounds_reached_total', { what: 'other' })).toBeGreaterThan(1_000);
  });

  test('a store that fails or hangs costs its own metric only', async () => {
    const failing = await started({ callsByState: () => Promise.reject(new Error('store is away')) });
    const hanging = await started({ callsByState: () => new Promise(() => undefined) });
    for (const { signals, scrape } of [failing, hanging]) {
      signals.bound('x', {});
      const text = await scrape();
      expect(value(text, 'sigfig_calls')).toBeUndefined();
      expect(value(text, 'sigfig_bounds_reached_total', { what: 'x' })).toBe(1);
    }
  });

  test('is only at its path', async () => {
    const { metrics } = await started();
    const response = await fetch(new URL('/', metrics.url));
    expect(response.status).toBe(404);
    expect(await response.text()).toBe('metrics are at /metrics\n');
    expect((await fetch(metrics.url, { method: 'POST' })).status).toBe(404);
  });

  test('a taken port is an error that names it', async () => {
    const { metrics } = await started();
    const port = Number(new URL(metrics.url).port);
    const listen = { host: '127.0.0.1', port, path: '/metrics' };
    await expect(startMetrics({ listen, version: '1', onError: () => undefined })).rejects.toMatchObject({
      code: 'EADDRINUSE',
      port,
    });
  });
});
