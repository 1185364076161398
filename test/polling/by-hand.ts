// A legacy by hand: accepts the handshake and POSTs, and leaves GETs waiting, to be answered when a test says so.
import type http from 'node:http';
import { until } from './harness.js';

/** GETs that wait for their answer. */
export const waiting: http.ServerResponse[] = [];
/** POSTs, where they are held. */
export const posts: http.ServerResponse[] = [];
let holding = false;

/** From now on POSTs wait too. */
export function holdPosts(): void {
  holding = true;
}

/** Begins anew, with nothing waiting. */
export function script(): http.RequestListener {
  waiting.length = 0;
  posts.length = 0;
  holding = false;
  return (request, response) => {
    request.resume();
    if (request.method === 'POST') {
      if (holding) posts.push(response);
      else response.end('ok');
    } else if (!request.url!.includes('sid=')) {
      response.end('0{"sid":"s1","upgrades":[],"pingInterval":25000,"pingTimeout":20000,"maxPayload":1000000}');
    } else waiting.push(response);
  };
}

/** Answers the GET that waits longest, or the next one. */
export async function answerNext(body: string, status = 200): Promise<void> {
  await until(() => waiting.length > 0);
  const response = waiting.shift()!;
  response.statusCode = status;
  response.end(body);
}
