// What is tested: the paths by name and where each is reached, either processes of the runner's own or the URLs of a
// staging backend. Knows nothing of scenarios.
import { randomBytes } from 'node:crypto';
import { rmSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Between } from '../play/between.js';
import type { Target } from '../play/play.js';
import { Problem } from '../play/problem.js';
import { Witnesses } from '../play/witness.js';
import { startCluster, startRedis } from './cluster.js';
import type { Identity } from './identity.js';
import { atExit, routeTables, startProxy, startStub, type Times } from './processes.js';
import { routedProxy } from './routed.js';

/** `peeled`: relay events alone are taken out of the stream. `cluster`: as `proxy-new`, over several instances. */
export const paths = ['legacy', 'proxy-legacy', 'proxy-new', 'peeled', 'cluster'] as const;
export type PathName = (typeof paths)[number];
/** What is played where nothing is said: a cluster needs a Redis. */
export const usualPaths: readonly PathName[] = paths.filter((path) => path !== 'cluster');

/** What a scenario needs besides a URL. */
export type Need = 'flip' | 'restart';

export interface Targets {
  readonly rejoinTimeoutMs: number;
  readonly legacyUrl: string;
  /** Why a path, or what a scenario needs there, can't be had; undefined where it can. */
  missing(path: PathName, needs: ReadonlySet<Need>): string | undefined;
  /**
   * Plays on it, told its rejoin timeout; one that needs something gets processes that nobody else uses. What is restarted
   * has a longer timeout, since starting takes its time on a busy machine.
   */
  use<T>(
    path: PathName,
    needs: ReadonlySet<Need>,
    play: (target: Target, rejoinTimeoutMs: number) => Promise<T>,
  ): Promise<T>;
  close(): Promise<void>;
}

export interface Common {
  readonly identity: () => Identity;
  readonly patienceMs: number;
  /** Of this run: witnesses are users of their own. */
  readonly run: string;
}

/** Rejoin timeouts that a restarted backend has as one, and a cluster, where every step is followed by rounds of barriers. */
const longer = 3;
const longerOn = (path: PathName): number => (path === 'cluster' ? 2 : 1);
/** Processes of one play's own start slowly where many do at once. */
export const mostDedicated = 3;

function witnessesAt(url: string, path: string, { identity, patienceMs, run }: Common): Witnesses {
  return new Witnesses({
    url,
    patienceMs,
    signIn: (name) => identity().signIn(`parity-own-${name}-${path}-${run}`, 'valid'),
    conversation: (a, b) =>
      identity().conversation([
        { id: a, token: undefined },
        { id: b, token: undefined },
      ]),
  });
}

/** Where several instances serve, calls of the runner's own prove that what one had for another has arrived. */
function betweenAt(urls: readonly string[], path: string, { identity, patienceMs, run }: Common): Between {
  return new Between({
    urls,
    patienceMs,
    signIn: (name) =>
      identity().signIn(`parity-own-between-${name}-${path}-${new URL(urls[0] ?? '').port}-${run}`, 'valid'),
    conversation: (a, b) =>
      identity().conversation([
        { id: a, token: undefined },
        { id: b, token: undefined },
      ]),
  });
}

function targetAt(urls: readonly string[], path: PathName, common: Common): Target & { close(): Promise<void> } {
  const [url = ''] = urls;
  const witnesses = witnessesAt(url, path, common);
  const between = urls.length > 1 ? betweenAt(urls, path, common) : undefined;
  return {
    path,
    url,
    ...(between && { urls, between }),
    witnesses,
    close: async () => void (await Promise.all([witnesses.close(), between?.close()])),
  };
}

const routesOf = (path: PathName) =>
  path === 'proxy-new' || path === 'cluster' ? 'new' : path === 'peeled' ? 'peeled' : 'legacy';

type Routed = keyof typeof routeTables;

/** What stands in front of a stub on one path: nothing, one proxy, or a cluster. */
interface Front {
  readonly urls: readonly string[];
  setRoutes(to: Routed): Promise<void>;
  kill(): Promise<void>;
}

export interface ClusterOptions {
  readonly redisUrl: string;
  readonly instances: number;
}

async function startFront(
  path: PathName,
  stubUrl: string,
  folder: string,
  times: Times,
  cluster: ClusterOptions | undefined,
): Promise<Front> {
  if (path === 'legacy') return { urls: [stubUrl], setRoutes: async () => undefined, kill: async () => undefined };
  if (path !== 'cluster') {
    const proxy = await startProxy(stubUrl, folder, routesOf(path), times);
    return { ...proxy, urls: [proxy.url] };
  }
  if (!cluster) throw new Problem('the path "cluster" needs Redis');
  return startCluster(cluster.redisUrl, cluster.instances, stubUrl, folder, routesOf(path), times);
}

interface Stack extends Target {
  /** Routes as they were at the start. */
  reset(): Promise<void>;
  close(): Promise<void>;
}

/** Stubs and proxies that one play at a time has for itself; a play that is over leaves them to the next. */
function stackPool(
  folder: string,
  secretFile: string,
  stubArgs: readonly string[],
  common: Common,
  cluster: ClusterOptions | undefined,
) {
  const slots = slotsOf(mostDedicated);
  const all = new Set<Stack>();
  const idle = new Map<string, Stack[]>();

  async function start(path: PathName, times: Times): Promise<Stack> {
    let stub = await startStub(secretFile, times, undefined, stubArgs);
    let front: Front;
    try {
      front = await startFront(path, stub.url, folder, times, cluster);
    } catch (error) {
      await stub.kill();
      throw error;
    }
    const target = targetAt(front.urls, path, common);
    const stack: Stack = {
      ...target,
      flip: (to) => front.setRoutes(to),
      async restart() {
        const address = new URL(stub.url).host;
        await stub.kill();
        stub = await startStub(secretFile, times, address, stubArgs);
      },
      reset: () => front.setRoutes(routesOf(path)),
      async close() {
        all.delete(stack);
        await target.close();
        await Promise.all([stub.kill(), front.kill()]);
      },
    };
    all.add(stack);
    return stack;
  }

  return {
    async use<T>(
      path: PathName,
      times: Times,
      play: (target: Target, rejoinTimeoutMs: number) => Promise<T>,
    ): Promise<T> {
      const free = await slots.take();
      try {
        const key = `${path} ${times.rejoinTimeoutMs}`;
        const stack = idle.get(key)?.pop() ?? (await start(path, times));
        try {
          const result = await play(stack, times.rejoinTimeoutMs);
          await stack.reset();
          idle.set(key, [...(idle.get(key) ?? []), stack]);
          return result;
        } catch (error) {
          await stack.close();
          throw error;
        }
      } finally {
        free();
      }
    },
    close: async () => void (await Promise.all([...all].map((stack) => stack.close()))),
  };
}

/** For the path `cluster`: how many instances, and the Redis for them; without a URL a private one is started. */
export interface OwnCluster {
  readonly instances: number;
  readonly redisUrl: string | undefined;
  /** `redis-server`, or where it is. */
  readonly redisServer: string;
}

/** Stub and proxies as processes of our own. `secret` is written where they find it. */
export async function ownTargets(
  secret: Buffer,
  rejoinTimeoutMs: number,
  wanted: readonly PathName[],
  common: Common,
  stubArgs: readonly string[] = [],
  ownCluster: OwnCluster = { instances: 2, redisUrl: undefined, redisServer: 'redis-server' },
): Promise<Targets> {
  const folder = await mkdtemp(join(tmpdir(), 'parity-'));
  const remove = () => rmSync(folder, { recursive: true, force: true });
  atExit.add(remove);
  const secretFile = join(folder, 'secret');
  await writeFile(secretFile, secret, { mode: 0o600 });
  const times = { rejoinTimeoutMs };
  const stops: (() => Promise<void>)[] = [];
  const close = async () => {
    await Promise.all(stops.splice(0).map((stop) => stop()));
    await rm(folder, { recursive: true, force: true });
    atExit.delete(remove);
  };
  try {
    const stub = await startStub(secretFile, times, undefined, stubArgs);
    stops.push(() => stub.kill());
    const timesOn = (path: PathName): Times => ({ rejoinTimeoutMs: longerOn(path) * rejoinTimeoutMs });
    let cluster: ClusterOptions | undefined;
    if (wanted.includes('cluster')) {
      const { instances, redisUrl, redisServer } = ownCluster;
      const redis = redisUrl === undefined ? await startRedis(redisServer) : undefined;
      if (redis) stops.push(() => redis.kill());
      cluster = { instances, redisUrl: redisUrl ?? redis?.url ?? '' };
    }
    const shared = new Map<PathName, ReturnType<typeof targetAt>>();
    await Promise.all(
      wanted.map(async (path) => {
        const front = await startFront(path, stub.url, folder, timesOn(path), cluster);
        stops.push(() => front.kill());
        shared.set(path, targetAt(front.urls, path, common));
      }),
    );
    const stacks = stackPool(folder, secretFile, stubArgs, common, cluster);
    stops.push(() => stacks.close());
    return {
      rejoinTimeoutMs,
      legacyUrl: stub.url,
      missing: () => undefined,
      async use(path, needs, play) {
        if (needs.has('restart')) return stacks.use(path, { rejoinTimeoutMs: longer * rejoinTimeoutMs }, play);
        if (needs.size > 0) return stacks.use(path, timesOn(path), play);
        return play(shared.get(path) as Target, timesOn(path).rejoinTimeoutMs);
      },
      async close() {
        await Promise.all([...shared.values()].map((target) => target.close()));
        await close();
      },
    };
  } catch (error) {
    await close();
    throw error;
  }
}

/** `take` resolves with what frees the slot again, in the order of asking. */
function slotsOf(most: number): { take(): Promise<() => void> } {
  let taken = 0;
  const waiting: (() => void)[] = [];
  const free = (): void => {
    taken--;
    waiting.shift()?.();
  };
  return {
    async take() {
      if (taken >= most) await new Promise<void>((resolve) => waiting.push(resolve));
      taken++;
      return free;
    },
  };
}

export interface GivenUrls {
  readonly legacy: string;
  /** Of each instance where there are several; the parties of a play are on different ones. */
  readonly proxies: readonly string[];
  /** The admin API, through which routes are set, and a token that may operate where it wants one. */
  readonly admin: { readonly url: string; readonly token: string | undefined } | undefined;
}

/**
 * Backends that run already. Without an admin API the proxy is played as it is routed: its path is named by the caller. With
 * one its routes are set for each play, and are as they were at the end.
 */
export async function givenTargets(
  urls: GivenUrls,
  rejoinTimeoutMs: number,
  proxyIs: Exclude<PathName, 'legacy'>,
  common: Common,
): Promise<Targets> {
  await reach('--legacy', urls.legacy);
  for (const proxy of urls.proxies) await reach('--proxy', proxy);
  const routed = urls.admin && (await routedProxy(urls.admin.url, urls.admin.token));
  const at = (path: PathName): readonly string[] => {
    if (path === 'legacy') return [urls.legacy];
    if (path === 'cluster' && urls.proxies.length < 2) return [];
    return routed || path === proxyIs ? urls.proxies : [];
  };
  const shared = new Map<PathName, ReturnType<typeof targetAt>>();
  return {
    rejoinTimeoutMs,
    legacyUrl: urls.legacy,
    missing(path, needs) {
      if (at(path).length === 0) {
        if (path === 'cluster' && urls.proxies.length < 2) return 'give --proxy for each of several instances';
        return path === 'legacy' || urls.proxies.length === 0
          ? 'no URL was given for it'
          : `the proxy is routed as ${proxyIs}; see --proxy-is, or set its routes with --admin`;
      }
      if (needs.has('restart')) return 'needs processes of its own';
      if (needs.has('flip') && path !== 'legacy' && !routed) return 'routes are set with --admin';
      return undefined;
    },
    async use(path, needs, play) {
      const target = shared.get(path) ?? targetAt(at(path), path, common);
      shared.set(path, target);
      if (path === 'legacy' || !routed) return play(target, rejoinTimeoutMs);
      return routed.play(routeTables[routesOf(path)], needs.has('flip'), (set) =>
        play({ ...target, flip: (to) => set(routeTables[to]) }, rejoinTimeoutMs),
      );
    },
    async close() {
      await Promise.all([...shared.values()].map((target) => target.close()));
      await routed?.close();
    },
  };
}

/** @throws Problem where nobody answers there. */
async function reach(flag: string, url: string): Promise<void> {
  try {
    await fetch(url, { signal: AbortSignal.timeout(10_000) }).then((response) => response.arrayBuffer());
  } catch (error) {
    const { cause, name } = error as { cause?: { code?: string; message?: string }; name: string };
    const why = cause?.code ?? cause?.message ?? name;
    throw new Problem(`${flag} ${url} can't be reached (${why}); start it, or mend the URL`);
  }
}

/** A secret for processes of our own. */
export const newSecret = (): Buffer => Buffer.from(randomBytes(32).toString('hex'));
