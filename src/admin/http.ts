// The operator's HTTP port: whether the process is alive, and whether it should get traffic. Knows nothing of routes or
// calls; it asks. It has a listener of its own, so that nothing here can hold up the proxy.
import type { ServerResponse } from 'node:http';
import { type Listening, listenForOperators } from '../telemetry/listen.js';

export interface Readiness {
  readonly ready: boolean;
  /** Why not, one clear phrase each: `draining`, `no legacy is reachable`. */
  readonly reasons: readonly string[];
}

export interface AdminOptions {
  readonly listen: { readonly host: string; readonly port: number };
  /** Quick and synchronous: probes come every second or so. */
  isReady(): Readiness;
  /** Told what goes wrong once it listens, and what `isReady` throws. */
  onError(error: unknown): void;
}

/**
 * `GET /healthz`: 200 while the process answers. `GET /readyz`: 200 or 503, `{ready, reasons}`. All else: 404, as JSON.
 * @throws the system's error where the address can't be taken.
 */
export function startAdmin(options: AdminOptions): Promise<Listening> {
  return listenForOperators(
    options.listen,
    (request, response) => {
      const path = request.url?.split('?', 1)[0];
      if (path !== '/healthz' && path !== '/readyz') {
        answer(response, 404, { error: 'not found', paths: ['/healthz', '/readyz'] });
      } else if (request.method !== 'GET' && request.method !== 'HEAD') {
        response.setHeader('allow', 'GET, HEAD');
        answer(response, 405, { error: 'only GET and HEAD' });
      } else if (path === '/healthz') {
        answer(response, 200, { alive: true });
      } else {
        const readiness = asked(options);
        answer(response, readiness.ready ? 200 : 503, readiness);
      }
    },
    options.onError,
  );
}

function asked(options: AdminOptions): Readiness {
  try {
    const { ready, reasons } = options.isReady();
    return { ready, reasons };
  } catch (error) {
    options.onError(error);
    return { ready: false, reasons: ['internal error'] };
  }
}

function answer(response: ServerResponse, status: number, body: unknown): void {
  const text = `${JSON.stringify(body)}\n`;
  response
    .writeHead(status, {
      'content-type': 'application/json; charset=utf-8',
      'content-length': Buffer.byteLength(text),
      'cache-control': 'no-store',
    })
    .end(text);
}
