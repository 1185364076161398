// Keeps the live figures coming: by the stream, by single requests where no stream can be had, and says when neither works.
// Knows nothing of what the figures mean or how they are shown.
import type { LiveBody } from '../api.js';
import { type Client, problemsOf, Refused } from './client.js';
import { serverEvents } from './sse.js';

/** `refused`: the listener answers, and changes can be made, but it gives no figures. `lost`: nothing answers. */
export type Link = 'connecting' | 'live' | 'refused' | 'lost';

export interface Feed {
  readonly link: Link;
  /** The newest figures; stay while there are no newer ones. */
  readonly live: LiveBody | null;
  /** Why figures are refused, in words to show. */
  readonly problem: string | null;
}

export interface FeedOptions {
  /** The stream sends once a second; silent for longer than this, it is taken for dead. */
  readonly silenceMs?: number;
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
  const { silenceMs = 4_000, pollMs = 1_000, retryStreamMs = 10_000 } = options;
  const stopped = new AbortController();
  let live: LiveBody | null = null;

  const show = (body: LiveBody) => {
    live = body;
    if (!stopped.signal.aborted) tell({ link: 'live', live, problem: null });
  };

  async function stream(): Promise<void> {
    const silent = new AbortController();
    let timer = setTimeout(() => silent.abort(), silenceMs);
    try {
      const body = await client.stream('api/live/stream', AbortSignal.any([stopped.signal, silent.signal]));
      for await (const { event, data } of serverEvents(body)) {
        clearTimeout(timer);
        timer = setTimeout(() => silent.abort(), silenceMs);
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
          tell({ link: 'refused', live, problem: problemsOf(polled).join('; ') });
        } else {
          // The stream first once something answers again: it shows what happened soonest.
          nextStream = 0;
          tell({ link: 'lost', live, problem: null });
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
