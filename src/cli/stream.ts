// Live figures as they come: Server-Sent Events cut out of bytes, and a connection that comes back after a loss.
// Knows nothing of what the figures are or how they are shown.
import { setTimeout as sleep } from 'node:timers/promises';
import type { LiveBody } from '../admin/api.js';
import type { AdminClient } from './client.js';
import { exitCodes, Failure } from './failure.js';

export type Seen =
  | { readonly kind: 'live'; readonly body: LiveBody }
  /** Tried again after `againMs`. */
  | { readonly kind: 'lost'; readonly problem: string; readonly againMs: number };

/** Quick at first, since a restart takes a second; then so that many who watch don't storm a server that comes back. */
const AGAIN_MS = [500, 1_000, 2_000];

/**
 * Snapshots, about one a second, until `signal` is aborted.
 * @throws Failure where it never came about, and where the token is not, or no longer, good.
 */
export async function* liveFigures(client: AdminClient, signal: AbortSignal): AsyncGenerator<Seen> {
  let losses = 0;
  let everLive = false;
  while (!signal.aborted) {
    let problem = `${client.url} ended the stream`;
    try {
      for await (const { event, data } of events(await client.stream('/api/live/stream', signal))) {
        if (event !== 'live') continue;
        yield { kind: 'live', body: snapshot(client.url, data) };
        everLive = true;
        losses = 0;
      }
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof Failure) || !everLive || error.code === exitCodes.unauthorized) throw error;
      // What follows the semicolon is advice for a wrong address; this one was right a moment ago.
      problem = error.problems[0]?.split(';')[0] ?? problem;
    }
    if (signal.aborted) return;
    const againMs = (AGAIN_MS[Math.min(losses, AGAIN_MS.length - 1)] ?? 0) * (0.75 + Math.random() / 2);
    losses++;
    yield { kind: 'lost', problem, againMs };
    await sleep(againMs, undefined, { signal }).catch((error: unknown) => {
      if (!signal.aborted) throw error;
    });
  }
}

function snapshot(url: string, data: string): LiveBody {
  let body: unknown;
  try {
    body = JSON.parse(data);
  } catch {
    // Told below, with what lacks the fields.
    body = undefined;
  }
  const fields = ['at', 'routes', 'events', 'calls', 'guard', 'instances'];
  if (typeof body !== 'object' || body === null || !fields.every((field) => field in body)) {
    throw new Failure(exitCodes.unreachable, 'unreachable', [
      `${url} sends figures that this version does not know; use the sigfig command of the same version as the server`,
    ]);
  }
  return body as LiveBody;
}

export interface ServerSentEvent {
  readonly event: string;
  readonly data: string;
}

/** A snapshot is some kilobytes; what is longer than this is no stream of ours. */
const MOST_CHARS = 4 * 1024 * 1024;

/**
 * The events of a stream, as in the HTML standard (9.2.6): lines end with LF, CRLF or CR, fields may be given in pieces,
 * lines that start with a colon are comments, an event that is cut off at the end doesn't count.
 * @throws Failure where an event is longer than 4 Mi characters.
 */
export async function* events(bytes: AsyncIterable<Uint8Array>): AsyncGenerator<ServerSentEvent> {
  const decoder = new TextDecoder();
  let rest = '';
  let event = '';
  let data: string[] = [];
  let size = 0;
  for await (const chunk of bytes) {
    rest += decoder.decode(chunk, { stream: true });
    // A CR at the very end may be half of a CRLF.
    const lines = rest.split(/\r\n|\n|\r(?!$)/);
    rest = lines.pop() ?? '';
    for (const line of lines) {
      if (line === '') {
        if (data.length > 0) yield { event: event || 'message', data: data.join('\n') };
        event = '';
        data = [];
        size = 0;
        continue;
      }
      const [, name, value = ''] = /^([^:]*):? ?(.*)$/s.exec(line) ?? [];
      if (name === 'event') event = value;
      else if (name === 'data') {
        data.push(value);
        size += value.length;
      }
    }
    if (rest.length + size > MOST_CHARS) {
      throw new Failure(exitCodes.unreachable, 'unreachable', ['the server sends an event without end; is it sigfig?']);
    }
  }
}
