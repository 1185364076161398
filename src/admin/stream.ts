// Live figures as Server-Sent Events: one snapshot a second, made once and sent to all who listen; none is made while nobody
// does. Knows nothing of what a snapshot holds. Source: WHATWG HTML, "Server-sent events".
import type { ServerResponse } from 'node:http';
import { type Clock, systemClock, type Timer } from '../base/clock.js';

const EVERY_MS = 1_000;
/** Dashboards and watches of a team; each costs a write a second. */
export const mostStreams = 32;
/** Of what a reader has not taken yet; it missed some snapshots by then, and may connect again. */
const MOST_WAITING_BYTES = 256 * 1024;

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

export function liveStreams({ snapshot, onError, clock = systemClock }: StreamsOptions): Streams {
  /** Each with whether its reader may still read. */
  const open = new Map<ServerResponse, () => boolean>();
  let timer: Timer | undefined;
  let making: Promise<void> | undefined;
  let again = false;

  const make = async () => {
    try {
      const data = `event: live\ndata: ${JSON.stringify(await snapshot())}\n\n`;
      const bytes = Buffer.from(data);
      for (const [response, allowed] of open) {
        if (response.writableLength > MOST_WAITING_BYTES || !allowed()) response.destroy();
        else response.write(bytes);
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
      open.set(response, allowed);
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
