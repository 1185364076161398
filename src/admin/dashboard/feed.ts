// Keeps the live figures coming: by the stream, by single requests where no stream can be had, and says when neither works.
// Knows nothing of what the figures mean or how they are shown.
import type { LiveBody } from '../api.js';
import { type Client, problemsOf, Refused } from './client.js';
import { serverEvents } from './sse.js';

/**
 * `silent`: nothing has come for a while, and it is not known yet whether anything answers. `refused`: the listener answers, and
 * changes can be made, but it gives no figures. `lost`: nothing answers.
 */
export type Link = 'connecting' | 'live' | 'silent' | 'refused' | 'lost';
/** Figures are none to be trusted, however they look. */
export const isStale = (link: Link): boolean => link !== 'connecting' && link !== 'live';

export interface Feed {
  readonly link: Link;
  /** The newest figures; stay while there are no newer ones. */
  readonly live: LiveBody | null;
  /** Why figures are refused, in words to show. */
  readonly problem: string | null;
}

export interface FeedOptions {
  /** Figures come once a second; after this long without any they are `silent`. */
  readonly silenceMs?: number;
  /** A stream that is silent for this long is given up for single requests, which leaves them time before `silenceMs`. */
  readonly streamMs?: number;
  /** Between single requests while there is no stream. */
  readonly pollMs?: number;
  /** While there is no stream but single requests work, the stream is tried again after this. */
  readonly retryStreamMs?: number;
}

/**
 * Tells every change until stopped, or until the API wants another token (the client tells that to its own listener).
 * Returns how to stop.
 */
export function followLive(client: Client, tell: (feed: Feed) => void, options: FeedOptions = {}): () => void {
  const { silenceMs = 3_000, streamMs = 2_000, pollMs = 1_000, retryStreamMs = 10_000 } = options;
  const stopped = new AbortController();
  let live: LiveBody | null = null;
  let link: Link = 'connecting';
  let silence: ReturnType<typeof setTimeout> | undefined;

  const say = (now: Link, problem: string | null = null) => {
    if (stopped.signal.aborted) return;
    link = now;
    tell({ link, live, problem });
  };
  const listen = () => {
    clearTimeout(silence);
    silence = setTimeout(() => link === 'live' && say('silent'), silenceMs);
  };
  const show = (body: LiveBody) => {
    live = body;
    listen();
    say('live');
  };
  stopped.signal.addEventListener('abort', () => clearTimeout(silence));

  async function stream(): Promise<void> {
    const silent = new AbortController();
    let timer = setTimeout(() => silent.abort(), streamMs);
    // Where no stream can be had, its time comes on top of that between two single requests.
    if (link === 'live') listen();
    try {
      const body = await client.stream('api/live/stream', AbortSignal.any([stopped.signal, silent.signal]));
      for await (const { event, data } of serverEvents(body)) {
        clearTimeout(timer);
        timer = setTimeout(() => silent.abort(), streamMs);
        if (event === 'live') show(JSON.parse(data) as LiveBody);
      }
    } finally {
      clearTimeout(timer);
    }
  }

  async function run(): Promise<void> {
    let nextStream = 0;
    let failures = 0;
    while (!stopped.signal.aborted) {
      if (Date.now() >= nextStream) {
        const error = await failure(stream());
        if (stopped.signal.aborted || isUnauthorized(error)) return;
        nextStream = Date.now() + retryStreamMs;
      }
      const polled = await failure(client.get<LiveBody>('api/live').then(show));
      if (stopped.signal.aborted || isUnauthorized(polled)) return;
      if (polled === undefined) {
        failures = 0;
        await wait(pollMs, stopped.signal);
      } else {
        failures += 1;
        if (polled instanceof Refused && polled.ours) {
          say('refused', problemsOf(polled).join('; '));
        } else {
          // The stream first once something answers again: it shows what happened soonest.
          nextStream = 0;
          say('lost');
        }
        await wait(Math.min(pollMs * 2 ** (failures - 1) * (0.5 + Math.random() / 2), 5 * pollMs), stopped.signal);
      }
    }
  }
  run();
  return () => stopped.abort();
}

/** Resolves with what it was rejected with. Any failure means the same here: no figures by that way. */
async function failure(promise: Promise<unknown>): Promise<unknown> {
  try {
    await promise;
    return undefined;
  } catch (error) {
    return error ?? new Error('rejected with nothing');
  }
}

const isUnauthorized = (error: unknown) => error instanceof Refused && error.status === 401;

function wait(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(done, ms);
    function done() {
      clearTimeout(timer);
      signal.removeEventListener('abort', done);
      resolve();
    }
    signal.addEventListener('abort', done);
  });
}
