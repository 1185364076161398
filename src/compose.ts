// The only place that chooses drivers and wires the parts: configuration in, a running proxy out. Nothing else may know
// both a room and its neighbours' insides.
import { randomInt, randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { startAdmin } from './admin/http.js';
import { thisInstance } from './admin/instance.js';
import { createInstances } from './admin/instances.js';
import { CannotStart } from './base/cannot-start.js';
import { type Clock, systemClock } from './base/clock.js';
import { Unavailable } from './base/unavailable.js';
import { alone } from './cluster/alone.js';
import type { Cluster } from './cluster/cluster.js';
import { redisCluster } from './cluster/redis.js';
import { trusts } from './config/values.js';
import type { Config } from './config.js';
import { Guard, type GuardedInstances } from './control/guard.js';
import { openRouteLog } from './control/open-log.js';
import { redisRouteLog } from './control/redis-log.js';
import { createRoutes } from './control/routes.js';
import { createMemberSource } from './identity/ask-members.js';
import { createTicketSource } from './identity/ask-ticket.js';
import { createTokenVerifier } from './identity/jwt.js';
import { loadKeys } from './identity/keys.js';
import { createMemberships, type MembershipSource } from './identity/ticket.js';
import type { Running } from './main.js';
import { createConnections } from './proxy/connection.js';
import { Drain } from './proxy/drain.js';
import { Listener } from './proxy/listener.js';
import { PollingSessions } from './proxy/polling.js';
import { Registry } from './proxy/registry.js';
import { Upstreams } from './proxy/upstreams.js';
import { connectRedis } from './redis/connection.js';
import type { Redis } from './redis/redis.js';
import { Holds } from './signaling/holds.js';
import { createLiveCalls } from './signaling/live-calls.js';
import { dueAt, startReaper } from './signaling/reaper.js';
import { Recovery } from './signaling/recovery.js';
import { Signaling } from './signaling/signaling.js';
import { Strays } from './signaling/strays.js';
import { memorySessionStore } from './store/memory.js';
import { redisSessionStore } from './store/redis.js';
import type { SessionStore } from './store/store.js';
import { createSignals } from './telemetry/create.js';
import { createLive } from './telemetry/live.js';
import type { Logger } from './telemetry/log.js';
import { startMetrics } from './telemetry/metrics.js';
import type { Signals } from './telemetry/signals.js';
import { createTimelines } from './telemetry/timelines.js';
import { version } from './version.js';

/** How often the instance that leads looks for calls whose time has come; an index has them. Milliseconds. */
const REAP_EVERY = 1_000;
/** For handing over what a drain has left, some thousand calls at the most; milliseconds. */
const LEAVE_WITHIN = 3_000;

/** @throws CannotStart, or the system's error where an address can't be taken. Whatever had started is closed again. */
export async function compose(config: Config, logger: Logger): Promise<Running> {
  const clock = systemClock;
  const closing: (() => unknown)[] = [];
  let shared: Shared | undefined;
  try {
    const metrics = await startMetrics({
      listen: config.metrics,
      version,
      onError: (error) => logger.error({ err: error }, 'metrics listener'),
    });
    closing.push(() => metrics.close());
    const registry = new Registry();
    const sizes: Record<string, () => number> = {};
    const timelines = createTimelines({ clock });
    const guard = new Guard({ clock });
    closing.push(() => guard.close());
    const live = createLive(clock);
    const signals = createSignals({
      logger,
      meter: metrics.meter,
      gauges: {
        callsByState: () => shared?.store.count() ?? {},
        guard: () => guard.states(),
        sizes,
        ...(config.redis && { cluster: () => clusterGauges(shared) }),
      },
      also: [live.signals, timelines.signals, guard.signals],
    });

    shared = await share(config, registry, signals, clock);
    const { store, cluster, redis } = shared;
    closing.push(shared.close);
    if (redis)
      logger.info({ instance: cluster.liveness.id, redis: redis.shown }, 'one of the instances that share a Redis');
    const routes = await createRoutes({
      log: redis
        ? redisRouteLog({ redis, cluster, clock, signals })
        : await openRouteLog({
            file: config.routes,
            log: config.routesLog,
            tell: (level, line) => logger[level]({ event: 'routes-log' }, line),
          }),
      file: config.routes,
      signals,
      clock,
    });
    closing.push(() => routes.close());
    await guard.watch(routes, signals, redis ? guarded(cluster) : undefined);

    const keys = await mend(
      loadKeys(config.tokenKey, { clock, problem: (line) => logger.warn({ event: 'jwks' }, line) }),
    );
    closing.push(() => keys.close());
    const upstreams = new Upstreams({ urls: config.legacy, ca: config.legacyCa, signals });
    closing.push(() => upstreams.close());
    upstreams.watch();
    const memberships = createMemberships({
      keys,
      clock,
      source: membershipSource(config, upstreams),
      ...(config.membership.kind === 'rest' ? { listMs: config.membership.cacheMs } : {}),
    });
    closing.push(() => memberships.close());

    const signaling = new Signaling({
      store,
      cluster,
      delivery: registry,
      signals,
      clock: shared.clock,
      memberships,
      routes: () => routes.table,
      newId: randomUUID,
    });
    Object.assign(sizes, signaling.sizes, { connections: () => registry.size, timelines: () => timelines.size });
    const reaper = startReaper({
      signaling,
      store,
      cluster,
      clock: shared.clock,
      signals,
      interval: config.reapIntervalMs,
      callsEvery: redis ? REAP_EVERY : config.reapIntervalMs,
      rejoinTimeout: config.rejoinTimeoutMs,
    });
    closing.push(() => reaper.close());

    const life = { store, cluster, delivery: registry, signals, clock: shared.clock, calls: signaling.calls };
    const recovery = new Recovery({ ...life, connections: () => registry.connections() });
    closing.push(() => recovery.close());
    if (redis) {
      const strays = new Strays(life);
      closing.push(() => strays.close());
    }
    const holds = new Holds(life);

    const connections = createConnections({
      services: [signaling],
      registry,
      ...(redis ? { at: cluster.liveness.address, before: randomInt(2 ** 20) * 2 ** 32 } : {}),
      verifier: createTokenVerifier(keys, { clock, userClaim: config.userClaim }),
      tokenFrom: config.tokenFrom,
      signals,
    });
    const trust = trusts(config.trustProxy);
    const polling = new PollingSessions({ connections, upstreams, trust, signals });
    const listener = new Listener({
      ...config.listen,
      tls: config.tls,
      socketPath: config.socketPath,
      upstreams,
      connections,
      polling,
      trust,
      legacyTimeoutMs: config.legacyTimeoutMs,
      signals,
    });
    const at = await listener.listen();
    closing.push(() => listener.close());

    const drain = new Drain({
      listener,
      delayMs: config.drainDelayMs,
      overMs: config.drainMs,
      ...(redis ? { before: (sockets) => holds.hold(sockets) } : {}),
      changed: () => void cluster.liveness.renew().catch(() => undefined), // within a second, once Redis is back
      signals,
    });
    const calls = createLiveCalls({ store, signaling, timelines, signals });
    const startedAt = clock.now();
    const self = thisInstance({
      version,
      startedAt,
      connected: registry,
      calls,
      draining: () => drain.state().draining,
      routesVersion: () => routes.current.version,
      leads: () => cluster.liveness.leads(),
      onError: (error) => signals.internalError('counting calls', error),
    });
    cluster.liveness.describe(() => ({ ...self.info(), ...(redis ? { guard: guard.figures() } : {}) }));
    closing.push(() => self.close());
    const admin = await startAdmin({
      listen: config.admin,
      tokensFile: config.adminTokens,
      onTokensProblem: (line) => logger.warn({ event: 'admin-tokens' }, line),
      version,
      startedAt,
      routes,
      calls,
      live,
      guard,
      connected: registry,
      instances: createInstances({ self, cluster, shared: redis !== null, drain, signals }),
      redis: () => (redis ? { address: redis.shown, reachable: redis.well() } : null),
      legacy: () => upstreams.all.map(({ url, up, reached }) => ({ url, reachable: up && reached })),
      signals,
      isReady: () => {
        const reasons = [
          ...(drain.state().draining ? ['draining'] : []),
          ...(upstreams.anyReached() ? [] : ['no legacy is reachable']),
        ];
        // What the legacy serves does not need it.
        const also = !redis || redis.well() ? [] : ["Redis can't be reached: the new path's calls are not served"];
        return { ready: reasons.length === 0, reasons: [...reasons, ...also] };
      },
      onError: (error) => signals.internalError('admin', error),
    });
    closing.push(() => admin.close());

    const closeAll = async () => {
      for (const close of closing.reverse()) await close();
    };
    return {
      proxyUrl: `${config.tls ? 'https' : 'http'}://${shownHost(at.address)}:${at.port}`,
      adminUrl: admin.url,
      metricsUrl: metrics.url,
      async drain() {
        await drain.finish();
        // Whoever could not be closed so far is now: only what has no connection any more is handed over.
        await listener.close();
        if (redis) await leave(recovery, cluster, signals);
        await closeAll();
      },
      kill() {
        closeAll().catch((error: unknown) => logger.error({ err: error }, 'closing'));
      },
    };
  } catch (error) {
    // Nobody has to take it for dead.
    if (shared?.redis) await shared.cluster.liveness.leave();
    for (const close of closing.reverse()) await close();
    throw error;
  }
}

interface Shared {
  readonly store: SessionStore;
  readonly cluster: Cluster;
  /** What calls are timed by. */
  readonly clock: Clock;
  /** Null: this is the only instance. */
  readonly redis: Redis | null;
  /** Of this machine's clock against that; milliseconds. */
  ahead(): number;
  close(): Promise<void>;
}

/** Where calls live and who else serves them: in this process alone, or in the Redis that several share. */
async function share(
  { redis: given, instance, rejoinTimeoutMs }: Config,
  registry: Registry,
  signals: Signals,
  clock: Clock,
): Promise<Shared> {
  const due = dueAt(rejoinTimeoutMs);
  if (!given) {
    const store = memorySessionStore(due);
    const cluster = alone(registry, `${instance}-${process.pid}`);
    return { store, cluster, clock, redis: null, ahead: () => 0, close: () => store.close() };
  }
  const redis = await connectRedis({ ...given, signals });
  const cluster = await redisCluster({ redis, name: instance, sockets: registry, signals, clock });
  const { liveness } = cluster;
  const store = redisSessionStore({
    redis,
    address: liveness.address,
    id: () => liveness.id,
    mayAct: () => liveness.mayAct(),
    isLivingId: (id) => liveness.isLivingId(id),
    dueAt: due,
    signals,
  });
  return {
    store,
    cluster,
    clock: cluster.clock,
    redis,
    ahead: () => cluster.clock.ahead(),
    async close() {
      await store.close();
      await cluster.close();
      await redis.close();
    },
  };
}

/** So that nobody has to find out that this instance is gone; without Redis they do, within seconds. */
async function leave(recovery: Recovery, { liveness }: Cluster, signals: Signals): Promise<void> {
  const late = sleep(LEAVE_WITHIN, 'late', { ref: false });
  const handed = recovery.handOver().then(
    () => 'handed over',
    (error: unknown) => {
      if (!(error instanceof Unavailable)) signals.internalError('leaving', error);
      return 'away';
    },
  );
  // What could not be handed over must be found.
  if ((await Promise.race([handed, late])) === 'handed over') await liveness.leave();
}

/** For metrics; until the first renewal there is nobody yet. */
const clusterGauges = (shared: Shared | undefined) => ({
  instances: shared?.cluster.liveness.living().length ?? 0,
  mayAct: shared?.cluster.liveness.mayAct() ?? false,
  leads: shared?.cluster.liveness.leads() ?? false,
  ahead: shared?.ahead() ?? 0,
});

/** One of them judges the figures of all. */
const guarded = ({ liveness }: Cluster): GuardedInstances => ({
  others: () => liveness.living().flatMap(({ self, info }) => (self ? [] : [info])),
  leads: () => liveness.leads(),
  well: () => liveness.well() && liveness.mayAct(),
});

function membershipSource(config: Config, upstreams: Upstreams): MembershipSource {
  const { membership } = config;
  const common = {
    clock: systemClock,
    base: () => (upstreams.anyUp() ? new URL(upstreams.stick().url) : null),
    ...(config.legacyCa === undefined ? {} : { ca: config.legacyCa }),
  };
  if (membership.kind === 'ticket') {
    return createTicketSource({ ...common, ticketUrl: membership.ticketUrl, ticketsUrl: membership.ticketsUrl });
  }
  return createMemberSource({
    ...common,
    template: membership.url,
    pointer: membership.participants,
    ...(membership.token === undefined ? {} : { serviceToken: membership.token }),
  });
}

/** What can't be loaded at the start is for the operator to mend. */
async function mend<T>(loading: Promise<T>): Promise<T> {
  try {
    return await loading;
  } catch (error) {
    throw new CannotStart([error instanceof Error ? error.message : String(error)]);
  }
}

const shownHost = (address: string): string => (address.includes(':') ? `[${address}]` : address);
