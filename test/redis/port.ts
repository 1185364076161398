// A port for a server that goes down and comes back. Knows nothing of the server.
import { createServer } from 'node:net';

/**
 * Below the range from which the system gives ports by itself, so that nobody gets it while its server is down; the port of
 * a cluster's bus, 10,000 above, lies below that range too.
 */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = 12_000 + Math.floor(Math.random() * 10_700);
    if ((await isFree(port)) && (await isFree(port + 10_000))) return port;
  }
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)));
  });
}
