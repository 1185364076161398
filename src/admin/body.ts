// A request's body or query as a plain value, bounded, or the refusal that it gets. Knows nothing of what should be in it.
import type { IncomingMessage } from 'node:http';
import { type Answer, refuse } from './answer.js';

export type Read = { readonly value: unknown } | Answer;

/** A routes file has at most 256 KiB. */
export const mostBodyBytes = 256 * 1024;
/** Of a body that is too large, read and thrown away, so that its sender gets to read the answer. */
const MOST_DISCARDED_BYTES = 4 * 1024 * 1024;

/** JSON only: a form of another site's page can't send that without asking first, which is never allowed. */
export async function bodyOf(request: IncomingMessage): Promise<Read> {
  if (!/^application\/json\s*(?:;|$)/i.test(request.headers['content-type'] ?? '')) {
    return refuse('media-type', ['the body must be JSON; send Content-Type: application/json']);
  }
  const chunks: Buffer[] = [];
  let bytes = 0;
  try {
    for await (const chunk of request as AsyncIterable<Buffer>) {
      bytes += chunk.length;
      if (bytes <= mostBodyBytes) chunks.push(chunk);
      else if (bytes > MOST_DISCARDED_BYTES) break;
    }
  } catch {
    // Its sender left, or took too long: nobody reads the answer.
    return refuse('invalid', ['the body ended early; send it whole']);
  }
  if (bytes > mostBodyBytes) {
    return refuse('too-large', [`the body has over ${mostBodyBytes / 1024} KiB; is it a request of this API?`], {
      headers: { connection: 'close' },
    });
  }
  try {
    return { value: JSON.parse(Buffer.concat(chunks).toString('utf8')) as unknown };
  } catch {
    return refuse('invalid', ['the body is no JSON; write an object such as {"reason": "…"}']);
  }
}

export function queryOf(request: IncomingMessage): Read {
  const query = new URLSearchParams((request.url ?? '').split('?', 2)[1] ?? '');
  const names = [...query.keys()];
  const twice = names.find((name, i) => names.indexOf(name) !== i);
  if (twice !== undefined)
    return refuse('invalid', [`${JSON.stringify(twice.slice(0, 80))} is there twice; give it once`]);
  return { value: Object.fromEntries(query) };
}
