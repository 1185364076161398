// A whole cluster of real processes: a legacy, a private Redis, and instances of the built command, each with a link of its own to
// Redis. Browsers are put on whichever instance a test wants. Knows nothing of what a test does with them.
import type { ManagerOptions, SocketOptions } from 'socket.io-client';
import { expect } from 'vitest';
import { type Client, callsNew, connect, metric, until, within } from '../harness.js';
import { type Process, type Processes, processes } from '../processes.js';
import { type RedisServer, startRedis } from '../redis/server.js';
import { type Link, startLink } from './link.js';

export const websocket: BrowserOptions = { transports: ['websocket'] };

export interface Instance extends Process {
  readonly name: string;
  readonly url: string;
  readonly admin: string;
  readonly metrics: string;
  readonly link: Link;
}

export interface Bed {
  readonly redis: RedisServer;
  readonly legacy: Process & { readonly url: string };
  readonly all: Processes;
  readonly instances: readonly Instance[];
  /** One more. */
  add(name: string, args?: readonly string[]): Promise<Instance>;
  /** A browser of this user on that instance; `seen: false` where Redis is away, so that other instances can't know of it. */
  on(instance: Instance, user: string, options?: BrowserOptions): Promise<Client>;
  /** How many instances this one takes for alive, by its admin API. */
  living(seenFrom: Instance): Promise<number>;
  close(): Promise<void>;
}

type BrowserOptions = Partial<ManagerOptions & SocketOptions> & { readonly ns?: string; readonly seen?: boolean };

export interface BedOptions {
  readonly instances?: number;
  readonly routes?: string;
  readonly args?: readonly string[];
  readonly legacyArgs?: readonly string[];
  readonly redisArgs?: readonly string[];
  /** A Redis of the test's own (Sentinel, Cluster) instead: instances reach it by themselves, no link stands between. */
  readonly over?: { readonly url: string; holderOf(key: string): Promise<RedisServer> };
}

export async function startBed({
  instances: count = 2,
  routes = callsNew,
  args = [],
  legacyArgs = [],
  redisArgs = [],
  over,
}: BedOptions = {}): Promise<Bed> {
  const all = await processes();
  const clients = new Set<Client>();
  const links: Link[] = [];
  const instances: Instance[] = [];
  const redis = await startRedis({ args: redisArgs });
  let closing: Promise<void> | undefined;
  const close = (): Promise<void> => {
    closing ??= end();
    return closing;
  };
  const end = async (): Promise<void> => {
    for (const client of clients) {
      client.socket.io.reconnection(false);
      client.close();
    }
    await all.close();
    await Promise.all(links.map((link) => link.close()));
    await redis.close();
  };
  try {
    const legacy = await all.legacy(['--ping-interval', '60s', '--ping-timeout', '60s', ...legacyArgs]);
    const add = async (name: string, more: readonly string[] = []): Promise<Instance> => {
      const link = await startLink(redis.port);
      links.push(link);
      const process = await all.proxy(legacy.url, routes, [
        '--redis',
        over?.url ?? link.url,
        '--instance',
        name,
        ...args,
        ...more,
      ]);
      const instance = { ...process, name, link };
      instances.push(instance);
      return instance;
    };
    await Promise.all(Array.from({ length: count }, (_, i) => add(`i${i + 1}`)));
    instances.sort((a, b) => a.name.localeCompare(b.name));
    const bed: Bed = {
      redis,
      legacy,
      all,
      instances,
      add,
      async on(instance, user, { seen = true, ns = '/', ...options } = websocket) {
        const client = await connect(instance.url, user, { ns, ...options });
        clients.add(client);
        // Other instances learn of it a moment later: whoever called it before then would find nobody there.
        if (seen) {
          const key = `sigfig:presence:{${encodeURIComponent(ns)}|${encodeURIComponent(user)}}`;
          const fields = async () => (await ((await over?.holderOf(key)) ?? redis).ask('HKEYS', key)) as string[];
          await until(
            async () => (await fields()).some((one) => one.includes(String(client.socket.id))),
            `${user} is known to other instances`,
          );
        }
        return client;
      },
      async living(seenFrom) {
        const status = (await (await fetch(`${seenFrom.admin}/api/status`)).json()) as {
          instances?: readonly unknown[];
        };
        return status.instances?.length ?? 0;
      },
      close,
    };
    for (const one of instances) {
      await until(async () => (await bed.living(one)) === count, `${one.name} knows all ${count}`, 15_000);
    }
    return bed;
  } catch (error) {
    await close();
    throw error;
  }
}

/** The conversation of two users, as the stub has it. */
export const conversationOf = (a: Client, b: Client): string => `dm:${a.user}:${b.user}`;

let offers = 0;

/** `a` calls and `b` answers. */
export async function inCall(a: Client, b: Client): Promise<string> {
  const conversationId = conversationOf(a, b);
  // No two offers of a browser are the same.
  const offer = `offer ${++offers}`;
  expect(await a.ask('call-offer', { conversationId, offer })).toEqual({ ok: true });
  expect(await b.next('call-offer')).toEqual({ conversationId, offer, fromUserId: a.user });
  expect(await b.ask('call-answer', { conversationId, answer: 'a' })).toEqual([]);
  expect(await a.next('call-answer')).toEqual({ conversationId, answer: 'a', fromUserId: b.user });
  return conversationId;
}

/** `back` rejoins the call, and `survivor` answers. */
export async function rejoin(conversationId: string, back: Client, survivor: Client): Promise<void> {
  expect(await back.ask('call-rejoin-offer', { conversationId, offer: 'again' })).toEqual({ ok: true });
  const offered = await survivor.next('call-rejoin-offer');
  expect(offered).toEqual({ conversationId, offer: 'again', fromUserId: back.user });
  expect(await survivor.ask('call-rejoin-answer', { conversationId, answer: 'back' })).toEqual([]);
  const answered = await back.next('call-rejoin-answer');
  expect(answered).toEqual({ conversationId, answer: 'back', fromUserId: survivor.user });
}

let words = 0;

/** Candidates there and back: the call works, and what was said before has come. */
export async function talk(conversationId: string, a: Client, b: Client): Promise<void> {
  for (const [from, to] of [
    [a, b],
    [b, a],
  ] as const) {
    const iceCandidate = `${++words} from ${from.user}`;
    expect(await from.ask('ice-candidate', { conversationId, iceCandidate })).toEqual({ ok: true });
    await until(() => to.got.some(({ args }) => args[0] === iceCandidate), `${to.user} gets a candidate`);
  }
}

/** Names of what was received, `error` with its message and `call-ended` with its reason. */
export function heard({ got }: Client): string[] {
  return got.map(({ event, args }) => {
    const arg = args[0] as { message?: string; reason?: string } | undefined;
    if (event === 'error') return `error: ${arg?.message}`;
    return event === 'call-ended' ? `call-ended: ${arg?.reason}` : event;
  });
}

export interface Chat {
  /** So many answers came since the start; the longest wait for one, in milliseconds. */
  figures(): { readonly answered: number; readonly worst: number; readonly failed: number };
  stop(): Promise<void>;
}

/** Two users on these instances who chat through the legacy without a pause; each message must come, once, in order. */
export async function chat(bed: Bed, from: Instance, to: Instance, name: string): Promise<Chat> {
  const [a, b] = await Promise.all([bed.on(from, `${name}-chat-a`), bed.on(to, `${name}-chat-b`)]);
  const conversationId = conversationOf(a, b);
  let going = true;
  let answered = 0;
  let failed = 0;
  let worst = 0;
  const texts: string[] = [];
  b.socket.on('chat-message', (message: { text?: string }) => void texts.push(String(message.text)));
  const chatting = (async () => {
    for (let n = 0; going; n++) {
      const started = performance.now();
      const answer = await a.socket
        .timeout(5_000)
        .emitWithAck('chat-message', { conversationId, text: `m${n}` })
        .catch(() => undefined); // counted just below
      worst = Math.max(worst, performance.now() - started);
      if (answer === undefined) failed++;
      else answered++;
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
  })();
  return {
    figures: () => ({ answered, worst, failed }),
    async stop() {
      going = false;
      await within(10_000, 'the chat has ended', chatting);
      await until(() => texts.length >= answered, 'every chat message has come');
      expect(texts).toEqual(Array.from({ length: texts.length }, (_, n) => `m${n}`));
      expect({ failed, texts: texts.length }).toEqual({ failed: 0, texts: answered });
    },
  };
}

/** Live calls of the new path over instances, by state; each is counted by one of them. */
export async function callsOf(instances: readonly Instance[]): Promise<Readonly<Record<string, number>>> {
  const states = ['OFFERING', 'CONNECTED', 'RENEGOTIATING', 'AWAITING_REJOIN'];
  const counts = await Promise.all(states.map((state) => metricOf(instances, 'sigfig_calls', { state })));
  return Object.fromEntries(states.flatMap((state, i) => (counts[i] ? [[state, counts[i]]] : [])));
}

/** Waits until live calls of the new path over these instances are so many, by state. */
export async function callsAre(
  instances: readonly Instance[],
  expected: Readonly<Record<string, number>>,
): Promise<void> {
  let last: unknown;
  await until(
    async () => {
      last = await callsOf(instances);
      return JSON.stringify(last) === JSON.stringify(expected);
    },
    `calls are ${JSON.stringify(expected)}`,
  ).catch((error: Error) => {
    throw new Error(`${error.message}; they are ${JSON.stringify(last)}`);
  });
}

/** The sum of a metric over instances. */
export async function metricOf(
  instances: readonly Instance[],
  name: string,
  labels: Readonly<Record<string, string>> = {},
): Promise<number> {
  const values = await Promise.all(instances.map(({ metrics }) => metric(metrics, name, labels)));
  return values.reduce((sum, value) => sum + value, 0);
}
