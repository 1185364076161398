// Live figures as Server-Sent Events: one snapshot a second, made once and sent to all who listen; none is made while nobody
// does. Knows nothing of what a snapshot holds. Source: WHATWG HTML, "Server-sent events".
import type { ServerResponse } from 'node:http';
import { type Clock, systemClock, type Timer } from '../base/clock.js';

const EVERY_MS = 1_000;
/** Dashboards and watches of a team; each costs a write a second. */
export const mostStreams = 32;
/**
 * A reader that has not taken one snapshot gets no other: each holds all there is to know, so that only one waits for each
 * reader, however large. One that takes longer than this is gone or asleep, and may connect again.
 */
const MOST_TAKING_MS = 15_000;

export interface Streams {
  /** Answers with the stream until the reader leaves. False: too many are open; nothing was sent. */
  open(response: ServerResponse, allowed: () => boolean): boolean;
  /** Something changed that must not wait for the second to be over. */
  hurry(): void;
  readonly size: number;
  close(): void;
}

export interface StreamsOptions {
  snapshot(): Promise<object>;
  onError(error: unknown): void;
  readonly clock?: Clock;
}

interface Reader {
  /** Whether it may still read. */
  readonly allowed: () => boolean;
  /** When it was given the snapshot that it is taking. */
  since: number;
}

export function liveStreams({ snapshot, onError, clock = systemClock }: StreamsOptions): Streams {
  const open = new Map<ServerResponse, Reader>();
  let timer: Timer | undefined;
  let making: Promise<void> | undefined;
  let again = false;

  const make = async () => {
    try {
      const data = `event: live\ndata: ${JSON.stringify(await snapshot())}\n\n`;
      const bytes = Buffer.from(data);
      for (const [response, reader] of open) {
        const taking = response.writableLength > 0;
        if (!reader.allowed() || (taking && clock.now() - reader.since > MOST_TAKING_MS)) response.destroy();
        else if (!taking) {
          reader.since = clock.now();
          response.write(bytes);
        }
      }
    } catch (error) {
      onError(error);
    }
  };
  /** One at a time; who hurries meanwhile gets another. */
  const tick = () => {
    if (open.size === 0) return;
    if (making) {
      again = true;
      return;
    }
    making = make().finally(() => {
      making = undefined;
      if (!again) return;
      again = false;
      tick();
    });
  };
  const repeat = () => {
    timer ??= clock.after(EVERY_MS, () => {
      timer = undefined;
      // One that takes longer than its second is not followed by a second one at once.
      if (!making) tick();
      if (open.size > 0) repeat();
    });
  };

  return {
    open(response, allowed) {
      if (open.size >= mostStreams) return false;
      open.set(response, { allowed, since: clock.now() });
      response.on('close', () => open.delete(response));
      response.setTimeout(0);
      response.writeHead(200, {
        'content-type': 'text/event-stream; charset=utf-8',
        'cache-control': 'no-store',
        'x-content-type-options': 'nosniff',
        // A proxy in between must not collect them.
        'x-accel-buffering': 'no',
      });
      response.write('retry: 1000\n\n');
      tick();
      repeat();
      return true;
    },
    hurry: tick,
    get size() {
      return open.size;
    },
    close() {
      timer?.cancel();
      for (const response of open.keys()) response.destroy();
    },
  };
}
