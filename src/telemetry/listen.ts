// A small HTTP listener for operators (metrics, health), with limits tight enough that it can't become a burden on the
// process it tells about. Knows nothing of what is asked or answered.
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface Listening {
  /** `http://127.0.0.1:9900`, with the real port. */
  readonly url: string;
  /** Stops at once; requests still open are cut. */
  close(): Promise<void>;
}

const MOST_CONNECTIONS = 512;
/** One machine that opens connections without end doesn't keep the probes of others out. */
const MOST_OF_ONE_ADDRESS = 128;

/**
 * @param onError is told what goes wrong once it listens.
 * @throws the system's error (`EADDRINUSE`, say) where the address can't be taken.
 */
export async function listenForOperators(
  at: { readonly host: string; readonly port: number },
  handler: RequestListener,
  onError: (error: Error) => void,
): Promise<Listening> {
  // Scrapers and probes send a few headers and no body, a few at a time; more is a mistake or an attack.
  // Who holds connections and asks nothing must not keep a probe out for long.
  const limits = { requestTimeout: 3_000, headersTimeout: 3_000, connectionsCheckingInterval: 1_000 };
  const server = createServer({ ...limits, maxHeaderSize: 8_192, keepAliveTimeout: 3_000 }, handler);
  server.maxConnections = MOST_CONNECTIONS;
  const byAddress = new Map<string, number>();
  server.on('connection', (socket) => {
    const address = socket.remoteAddress ?? '';
    const open = (byAddress.get(address) ?? 0) + 1;
    if (open > MOST_OF_ONE_ADDRESS) {
      socket.destroy();
      return;
    }
    byAddress.set(address, open);
    socket.once('close', () => {
      const left = (byAddress.get(address) ?? 1) - 1;
      if (left > 0) byAddress.set(address, left);
      else byAddress.delete(address);
    });
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(at.port, at.host, () => {
      server.off('error', reject);
      resolve();
    });
  });
  server.on('error', onError);
  const { address, port } = server.address() as AddressInfo;
  return {
    url: `http://${address.includes(':') ? `[${address}]` : address}:${port}`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
