// Requests outside the Socket.IO path, by http-proxy: it streams bodies and passes aborts on. Heads and answers are
// ours, since it merges and lower-cases headers, passes hop-by-hop ones on, and drops trailers and interim answers.
// Knows nothing of Socket.IO.
import type { IncomingMessage, OutgoingHttpHeader, ServerResponse } from 'node:http';
import { createProxyServer } from 'http-proxy';
import { refuse, relayAnswer } from './answer.js';
import { type RawHeaders, requestHeaders } from './headers.js';
import { accompany, type ForwardOptions, forward } from './http.js';
import type { Upstream } from './upstreams.js';

export class PlainHttp {
  readonly #options: ForwardOptions;
  readonly #proxy = createProxyServer({ selfHandleResponse: true });
  readonly #underWay = new WeakMap<IncomingMessage, Upstream>();

  constructor(options: ForwardOptions) {
    this.#options = options;
    this.#proxy.on('proxyReq', (passing, request, response) => {
      const upstream = this.#underWay.get(request)!;
      for (const name of passing.getHeaderNames()) passing.removeHeader(name);
      for (const [name, values] of byName(requestHeaders(request, options.trust, upstream.hostHeader))) {
        passing.setHeader(name, values);
      }
      passing.setHeader('Connection', 'keep-alive');
      accompany(passing, request, response, options.timeout);
    });
    this.#proxy.on('proxyRes', (answer, _request, response) => relayAnswer(answer, response));
    this.#proxy.on('error', (_error, request, response) => {
      if (!request || !response || !('writeHead' in response)) return;
      refuse(response, 502, 'legacy is not reachable');
      // What the browser still sends is read, or it would not get to see the answer.
      request.unpipe();
      request.resume();
    });
  }

  /** As `forward` of `http.ts`: 502 where the legacy can't be reached, 504 where it is late. */
  forward(request: IncomingMessage, response: ServerResponse, upstream: Upstream): void {
    // http-proxy makes a path of `*` and of absolute URLs, and its head is out before ours where 100 is waited for.
    if (request.url?.[0] !== '/' || request.headers.expect !== undefined) {
      forward(request, response, upstream, this.#options);
      return;
    }
    this.#underWay.set(request, upstream);
    this.#proxy
      // The agent makes TLS of it where the legacy has TLS.
      .web(request, response, { target: `http://${upstream.address}`, agent: upstream.agent })
      .catch(() => response.destroy());
  }
}

/** Values by name, in the order and case of the first of each. */
function byName(headers: RawHeaders): Iterable<readonly [string, OutgoingHttpHeader & readonly string[]]> {
  const byLower = new Map<string, [string, string[]]>();
  for (let i = 0; i + 1 < headers.length; i += 2) {
    const lower = headers[i]!.toLowerCase();
    const seen = byLower.get(lower);
    if (seen) seen[1].push(headers[i + 1]!);
    else byLower.set(lower, [headers[i]!, [headers[i + 1]!]]);
  }
  return byLower.values();
}
