// A small HTTP listener for operators (metrics, health), with limits tight enough that it can't become a burden on the
// process it tells about. Knows nothing of what is asked or answered.
import { createServer, type RequestListener, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { performance } from 'node:perf_hooks';

export interface Listening {
  /** `http://127.0.0.1:9900`, with the real port. */
  readonly url: string;
  /** Stops at once; requests still open are cut. */
  close(): Promise<void>;
}

/** Each costs a file descriptor and some kilobytes; probes, scrapers and a team's dashboards need a few dozen. */
const MOST_CONNECTIONS = 512;
/** One machine that opens connections without end doesn't keep those of others out. */
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
  const connections = new Connections();
  // Scrapers and probes send a few headers and no body, a few at a time; more is a mistake or an attack.
  // Who holds connections and asks nothing must not keep a probe out for long.
  const limits = { requestTimeout: 3_000, headersTimeout: 3_000, connectionsCheckingInterval: 1_000 };
  const server = createServer({ ...limits, maxHeaderSize: 8_192, keepAliveTimeout: 3_000 }, (request, response) => {
    connections.asked(request.socket, response);
    handler(request, response);
  });
  server.on('connection', (socket) => connections.add(socket));
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

/** Who has connected asks within this time; after it the connection is idle. */
const FRESH_MS = 1_000;

interface Connection {
  readonly answers: Set<ServerResponse>;
  /** When it was opened, or its last answer was over; milliseconds. */
  idleSince: number;
}

/**
 * Never refuses a new connection: behind an ingress, and on loopback, everybody has one address, and whoever comes last may be
 * the one who takes everything back. At a limit the one that is missed least is cut instead.
 */
class Connections {
  /** By address, each in the order in which they came or were last used. */
  readonly #byAddress = new Map<string, Map<Socket, Connection>>();
  #size = 0;

  add(socket: Socket): void {
    const address = socket.remoteAddress ?? '';
    const own = this.#byAddress.get(address) ?? new Map<Socket, Connection>();
    this.#byAddress.set(address, own);
    own.set(socket, { answers: new Set(), idleSince: performance.now() });
    this.#size++;
    socket.once('close', () => this.#forget(address, socket));
    if (own.size > MOST_OF_ONE_ADDRESS) this.#cut(address, own, socket);
    else if (this.#size > MOST_CONNECTIONS) {
      const most = [...this.#byAddress].reduce((a, b) => (b[1].size > a[1].size ? b : a));
      this.#cut(...most, socket);
    }
  }

  asked(socket: Socket, response: ServerResponse): void {
    const own = this.#byAddress.get(socket.remoteAddress ?? '');
    const connection = own?.get(socket);
    if (!own || !connection) return;
    connection.answers.add(response);
    response.once('close', () => {
      connection.answers.delete(response);
      connection.idleSince = performance.now();
      // Used last: behind those that have been idle for longer.
      if (own.delete(socket)) own.set(socket, connection);
    });
  }

  /** Of those that are missed least the one that came first. */
  #cut(address: string, own: ReadonlyMap<Socket, Connection>, newest: Socket): void {
    const now = performance.now();
    let least: Socket | undefined;
    let rank = Number.POSITIVE_INFINITY;
    for (const [socket, connection] of own) {
      if (socket === newest || missed(connection, now) >= rank) continue;
      least = socket;
      rank = missed(connection, now);
    }
    if (!least) return;
    this.#forget(address, least);
    least.destroy();
  }

  #forget(address: string, socket: Socket): void {
    const own = this.#byAddress.get(address);
    if (!own?.delete(socket)) return;
    this.#size--;
    if (own.size === 0) this.#byAddress.delete(address);
  }
}

/** Least: what has asked nothing for long; then what takes its answer, a stream say; what is about to ask; what waits. */
function missed({ answers, idleSince }: Connection, now: number): 0 | 1 | 2 | 3 {
  if (answers.size === 0) return now - idleSince > FRESH_MS ? 0 : 2;
  for (const { headersSent } of answers) if (!headersSent) return 3;
  return 1;
}
