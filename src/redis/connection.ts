// Redis through ioredis, set so that nothing is queued or repeated behind our back: what has no answer within a second fails, and who
// asked decides. Knows nothing of what is kept there. Batching is our own: ioredis's automatic pipelines hold the next batch back until
// the last one is answered, which would make two round trips out of one.
import { createHash } from 'node:crypto';
import { Redis as Client, Cluster, type RedisOptions } from 'ioredis';
import { causeOf } from './causes.js';
import { deadlines, SILENCE, TIMEOUT } from './deadlines.js';
import { keyOf } from './keys.js';
import { holdBackLibraryLines } from './library-lines.js';
import { type RedisNode, type RedisPlace, shownPlace } from './place.js';
import { type Arg, type Redis, RedisAway, RedisRefused, type Script } from './redis.js';
import { followsFrom, meaningOf } from './replies.js';

/** Part of `Signals`. */
export interface RedisSignals {
  redis(well: boolean, why: string): void;
  roundTrip(name: string, ms: number): void;
}

export interface ConnectOptions {
  readonly place: RedisPlace;
  /** In front of every key. */
  readonly prefix: string;
  /** Certificates (PEM) by which the server is trusted over TLS; the system's where it isn't given. */
  readonly ca?: string | undefined;
  readonly signals?: RedisSignals | undefined;
}

const NOT_YET = 'not connected yet';
const PROBE_EVERY = 500;
const LAST_WORDS = 500;
const LOOK_EVERY = 10;
/** Commands without an answer: a second's worth at ten times the load that one process can serve. Above that they fail at once. */
const MOST_PENDING = 20_000;
const MOST_PENDING_BYTES = 64 * 1024 * 1024;

/** Resolves with the first answer of Redis, or after a second without: it goes on trying then, and `well` says so. */
export async function connectRedis({ place, prefix, ca, signals }: ConnectOptions): Promise<Redis> {
  const cluster = place.kind === 'cluster';
  // Nodes of a Cluster are watched by ioredis, by timers that a busy process can be late for: so with room.
  const client = open(place, ca, { commandTimeout: 3 * TIMEOUT, ...(cluster ? { socketTimeout: 3 * TIMEOUT } : {}) });
  const cork = corked(client);
  const answers = deadlines(() => {
    if (!cluster && client.status === 'ready') client.disconnect(true);
  });
  const shas = new Map<Script, string>();
  /** Scripts that this connection's server has. A Cluster has several servers: there the first EVALSHA of each finds out. */
  const loaded = new Set<string>();
  const listeners = new Set<(well: boolean) => void>();
  let well = false;
  let why = cluster ? 'no node of the Cluster serves yet; "redis-cli CLUSTER INFO" says whether it is formed' : NOT_YET;
  let closed = false;
  let needless = false;
  let pending = 0;
  let pendingBytes = 0;
  let probing = false;

  // A Sentinel is given the password of the server whether it asks for one or not.
  const loud = holdBackLibraryLines(() => {
    needless = place.kind !== 'sentinel';
  });
  let known = false;
  const said = (message: string): string => causeOf(message, { place, known });
  const reasonOf = (error: unknown): string => {
    const meant = meaningOf(error, said);
    return meant instanceof RedisRefused ? said(meant.message) : meant instanceof Error ? meant.message : 'unknown';
  };

  function set(next: boolean, reason: string): void {
    why = reason;
    if (next === well || closed) return;
    well = next;
    known ||= well;
    if (!well) probeSoon(0);
    signals?.redis(well, reason);
    for (const listener of [...listeners]) listener(well);
  }

  /** Asks until it answers: what can't be written can't be used either, so it is a write. */
  function probeSoon(ms: number): void {
    if (probing || closed) return;
    probing = true;
    setTimeout(async () => {
      if (client.status === 'ready' && settled(client)) {
        try {
          await answers.within(client.set(keyOf(prefix, 'probe', 'live'), '1', 'PX', 1_000));
          set(true, needless ? 'answers, and asks for no password though one is given' : 'answers');
        } catch (error) {
          set(false, reasonOf(error));
        }
      }
      probing = false;
      if (!well) probeSoon(cluster && client.status === 'ready' ? PROBE_EVERY / 10 : PROBE_EVERY);
    }, ms).unref();
  }

  if (client instanceof Cluster)
    onNewMaster(client, () => {
      if (well && !closed) for (const listener of [...listeners]) listener(true);
    });
  const fails = (error: Error & { readonly lastNodeError?: unknown }): void => {
    // The cause comes first, and then what follows from it. That of a Cluster is what one of its nodes said.
    const cause = error.lastNodeError instanceof Error ? error.lastNodeError : error;
    if (!well && !followsFrom(cause.message)) why = reasonOf(cause);
  };
  client.on('error', fails);
  client.on('close', () => {
    loaded.clear();
    needless = false;
    answers.reset();
    set(false, well ? 'the connection broke' : why);
  });
  client.on('ready', () => {
    loaded.clear();
    probeSoon(0);
  });

  async function ask(name: string, args: readonly Arg[], send: () => Promise<unknown>): Promise<unknown> {
    // One server of a Cluster can be away and the others there.
    if (closed || (!well && !cluster)) throw new RedisAway(closed ? 'closed' : why, false);
    let size = 0;
    for (const arg of args) size += typeof arg === 'number' ? 8 : arg.length;
    if (pending >= MOST_PENDING || pendingBytes + size > MOST_PENDING_BYTES)
      throw new RedisAway('too much is waiting for its answer', false);
    pending += 1;
    pendingBytes += size;
    cork();
    const started = performance.now();
    try {
      const answer = await answers.within(send());
      signals?.roundTrip(name, performance.now() - started);
      return answer;
    } catch (error) {
      const meant = meaningOf(error, said);
      if (meant instanceof RedisAway) {
        // Of a Cluster the probe says whether that is one server or all that we need.
        if (cluster) probeSoon(0);
        else set(false, meant.message);
        if (!well && !meant.sent && followsFrom(messageOf(error))) throw new RedisAway(why, false);
      }
      throw meant;
    } finally {
      pending -= 1;
      pendingBytes -= size;
    }
  }

  function evaluate(script: Script, keys: readonly string[], args: readonly Arg[]): Promise<unknown> {
    let sha = shas.get(script);
    if (!sha) {
      sha = createHash('sha1').update(script.lua).digest('hex');
      shas.set(script, sha);
    }
    const known = sha;
    if (cluster || loaded.has(known))
      return client.evalsha(known, keys.length, ...keys, ...args).catch((error: unknown) => {
        if (!(error instanceof Error) || !error.message.startsWith('NOSCRIPT')) throw error;
        return client.eval(script.lua, keys.length, ...keys, ...args);
      });
    // What is sent behind this on the same connection finds the script there.
    loaded.add(known);
    return client.eval(script.lua, keys.length, ...keys, ...args);
  }

  const waiting = waitingConnection(() => open(place, ca, {}), said);
  listeners.add((now) => {
    if (now) waiting.refresh();
  });

  client.connect().catch((error: Error) => {
    fails(error);
    probeSoon(PROBE_EVERY);
  });
  await new Promise<void>((resolve) => {
    const done = (): void => {
      listeners.delete(done);
      clearTimeout(timer);
      resolve();
    };
    const timer = setTimeout(() => {
      if (!well) signals?.redis(false, why);
      done();
    }, TIMEOUT);
    listeners.add(done);
  });

  return {
    shown: shownPlace(place),
    ordered: !cluster,
    key: (kind, tag) => keyOf(prefix, kind, tag),
    run: (script, keys, args) => ask(script.name, [...keys, ...args], () => evaluate(script, keys, args)),
    call: (command, ...args) =>
      ask(command.toLowerCase(), args, () => client.call(command, ...args) as Promise<unknown>),
    waiting: (command, ...args) => waiting.ask(command, args),
    well: () => well,
    onWell(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    async close() {
      closed = true;
      listeners.clear();
      loud();
      // What was asked a moment ago goes out yet.
      for (const until = performance.now() + LAST_WORDS; well && pending > 0 && performance.now() < until; )
        await new Promise((resolve) => setTimeout(resolve, 5));
      well = false;
      answers.reset();
      client.disconnect();
      waiting.close();
    },
  };
}

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : '');

type AnyClient = Client | Cluster;

/** Not connected yet. */
function open(place: RedisPlace, ca: string | undefined, timeouts: RedisOptions): AnyClient {
  const tls = place.tls ? { tls: ca === undefined ? {} : { ca } } : {};
  const again = (times: number): number =>
    Math.min(50 * 2 ** Math.min(times, 4), 400) + Math.floor(Math.random() * 100);
  const common: RedisOptions = {
    ...timeouts,
    ...tls,
    ...(place.username === undefined ? {} : { username: place.username }),
    ...(place.password === undefined ? {} : { password: place.password }),
    lazyConnect: true,
    connectTimeout: TIMEOUT,
    connectionName: 'sigfig',
    disableClientInfo: true,
    keepAlive: 5_000,
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    // What had no answer when the connection broke fails then, and not with a later connection.
    maxRetriesPerRequest: 0,
    // A master that was made a replica: ask the Sentinels, or the name, again. And a database that isn't there: what is asked on that
    // connection would be done in database 0, another deployment's.
    reconnectOnError: (error) => error.message.startsWith('READONLY') || isOfSelect(error),
  };
  if (place.kind === 'cluster') {
    const cluster = new Cluster(copied(place.nodes), {
      lazyConnect: true,
      redisOptions: common,
      enableOfflineQueue: false,
      clusterRetryStrategy: again,
      slotsRefreshTimeout: TIMEOUT,
      slotsRefreshInterval: 2_000,
      // These two would send again what may have been executed.
      retryDelayOnFailover: 0,
      retryDelayOnClusterDown: 0,
    });
    // A node takes no command while its connection is being made, but for the one that began that: so it is made before it is needed,
    // and after the one command by which ioredis finds out whether the Cluster is up.
    const meet = (): void => {
      for (const node of cluster.nodes('master')) if (node.status === 'wait') node.connect().catch(saidByNodeError);
    };
    cluster.on('ready', meet);
    cluster.on('+node', () => {
      setImmediate(() => {
        if (cluster.status === 'ready') meet();
      });
    });
    return cluster;
  }
  const [first] = place.nodes;
  const where: RedisOptions =
    place.kind === 'single'
      ? { ...first }
      : {
          sentinels: copied(place.nodes),
          name: place.master,
          sentinelRetryStrategy: again,
          sentinelCommandTimeout: TIMEOUT,
          enableTLSForSentinelMode: place.tls,
          ...(place.password === undefined ? {} : { sentinelPassword: place.password }),
          ...(place.tls ? { sentinelTLS: tls.tls ?? {} } : {}),
        };
  const client = new Client({ ...common, ...where, db: place.db, retryStrategy: again });
  // A server that takes the connection and says nothing.
  client.on('connect', () => {
    const { stream } = client;
    const late = (): void => {
      if (client.stream === stream && client.status === 'connect') client.disconnect(true);
    };
    setTimeout(() => setImmediate(late), TIMEOUT).unref();
  });
  return client;
}

const isOfSelect = (error: Error & { readonly command?: { readonly name?: unknown } }): boolean =>
  error.command?.name === 'select';

/** Tells when others are the masters than the last time that it was looked, which is every two seconds. */
function onNewMaster(cluster: Cluster, tell: () => void): void {
  let before: readonly string[] = [];
  cluster.on('refresh', () => {
    const now = cluster.nodes('master').map(({ options }) => `${options.host}:${options.port}`);
    const fresh = before.length > 0 && now.some((one) => !before.includes(one));
    if (now.length > 0) before = now;
    if (fresh) tell();
  });
}

/** Whether the nodes of a Cluster are connected, or known not to be; within a second they are. */
const settled = (client: AnyClient): boolean =>
  client instanceof Client || client.nodes('master').every(({ status }) => !/^(wait|connecting|connect)$/.test(status));

/** ioredis writes into what it is given. */
const copied = (nodes: RedisPlace['nodes']): RedisNode[] => nodes.map((node) => ({ ...node }));

/** The pool of a Cluster removes a node that can't be reached; commands for it fail with the reason. */
const saidByNodeError = (): void => undefined;

/** Holds back what is written in this turn of the event loop, so that it goes out in one piece. */
function corked(client: AnyClient): () => void {
  let held = false;
  return () => {
    if (held) return;
    held = true;
    const streams = (client instanceof Cluster ? client.nodes('master') : [client]).flatMap(
      ({ stream }) => stream ?? [],
    );
    for (const stream of streams) stream.cork();
    setImmediate(() => {
      held = false;
      for (const stream of streams) stream.uncork();
    });
  };
}

/** A second connection, made when it is first asked, for commands that wait at the server. */
function waitingConnection(make: () => AnyClient, said: (message: string) => string) {
  let client: AnyClient | undefined;
  let asked = 0;
  let closed = false;

  /** Resolves once it can be asked; fails after a second. */
  async function ready(): Promise<AnyClient> {
    if (closed) throw new RedisAway('closed', false);
    if (!client) {
      client = make();
      client.on('error', saidByWhoAsks);
      client.connect().catch(saidByWhoAsks);
    }
    const made = client;
    // Looked at so often, not so long: this process may be held up itself.
    for (let looks = 0; !(made.status === 'ready' && settled(made)); looks++) {
      if (closed || looks === TIMEOUT / LOOK_EVERY) throw new RedisAway('not connected', false);
      await new Promise((resolve) => setTimeout(resolve, LOOK_EVERY).unref());
    }
    return made;
  }

  return {
    async ask(command: string, args: readonly Arg[]): Promise<unknown> {
      const made = await ready();
      const at = args.findIndex((arg) => typeof arg === 'string' && arg.toUpperCase() === 'BLOCK');
      const waits = Number(args[at + 1] ?? 0);
      asked += 1;
      // Half a connection says nothing: an answer is due once the wait is over.
      let answered = false;
      const timer = setTimeout(() => {
        // What has come meanwhile is read first.
        setImmediate(() => {
          if (!answered) made.disconnect(true);
        });
      }, waits + SILENCE);
      try {
        return await made.call(command, ...args);
      } catch (error) {
        throw meaningOf(error, said);
      } finally {
        answered = true;
        asked -= 1;
        clearTimeout(timer);
      }
    },
    /** Redis was away: what waits there may wait on a connection that is dead. */
    refresh(): void {
      if (client && (asked > 0 || client.status !== 'ready')) client.disconnect(true);
    },
    close(): void {
      closed = true;
      client?.disconnect();
    },
  };
}

/** A command that can't be sent, or has no answer, fails with the reason. */
const saidByWhoAsks = (): void => undefined;
