// Composes the legacy backend: REST, chat, group calls, presence and 1:1 calls on one HTTP server and one Socket.IO.
// Shares no code with the proxy that replaces a part of it; several may run in one process.
import { createServer } from 'node:http';
import type { AddressInfo, Socket as NetSocket } from 'node:net';
import { type Namespace, Server, type Socket } from 'socket.io';
import { createTokens, type Tokens, tokenCookie } from './auth.js';
import { type Calls, createCalls } from './calls.js';
import { createChat } from './chat.js';
import { createFiles } from './files.js';
import { attachGroups } from './groups.js';
import { type MembershipStore, openMembership } from './membership.js';
import { attachPresence } from './presence.js';
import { attachProbes } from './probes.js';
import { createRest } from './rest.js';
import { createTickets } from './tickets.js';

/** All times in milliseconds, all sizes in bytes. */
export interface LegacyOptions {
  /** Default 127.0.0.1. */
  readonly host?: string | undefined;
  /** Default 0: any free port. */
  readonly port?: number | undefined;
  /** HS256 secret of tokens and tickets; default: random, for this run. */
  readonly jwtSecret?: string | Buffer | undefined;
  /** Default 12 hours. */
  readonly tokenTtlMs?: number | undefined;
  /** Whether there are ticket endpoints; default true. */
  readonly tickets?: boolean | undefined;
  /** Default 5 minutes. */
  readonly ticketTtlMs?: number | undefined;
  /** `memory` (default) or a `postgres://` URL. */
  readonly membership?: string | undefined;
  /** Added to every membership lookup; default 0. */
  readonly membershipLatencyMs?: number | undefined;
  /** Default 60 s. */
  readonly rejoinTimeoutMs?: number | undefined;
  /** Default 15 s. */
  readonly reapIntervalMs?: number | undefined;
  /** A call that nothing changes for so long is dropped; default 6 hours. */
  readonly callLimitMs?: number | undefined;
  /** Socket.IO's connection state recovery; default off. */
  readonly recovery?: boolean | undefined;
  /** Accept clients of Socket.IO 2 (EIO=3); default off. */
  readonly allowEio3?: boolean | undefined;
  /** The one origin that may call from elsewhere (`*` for any); default none. */
  readonly corsOrigin?: string | undefined;
  /** Sets Engine.IO's `io` cookie at the handshake and a `token` cookie at login; default off. */
  readonly cookie?: boolean | undefined;
  /** Engine.IO's heartbeat and limit; defaults are those of Socket.IO. */
  readonly pingIntervalMs?: number | undefined;
  readonly pingTimeoutMs?: number | undefined;
  readonly maxPayload?: number | undefined;
  /** Largest upload; default 64 MiB. */
  readonly maxUpload?: number | undefined;
  /** Where warnings go; default nowhere. */
  readonly log?: ((line: string) => void) | undefined;
}

export interface Legacy {
  /** `http://127.0.0.1:PORT`, without a slash at the end. */
  readonly url: string;
  readonly port: number;
  readonly io: Server;
  readonly tokens: Tokens;
  readonly membership: MembershipStore;
  readonly calls: Calls;
  /** Disconnects everybody and lets go of port, files and database. */
  close(): Promise<void>;
}

const CLOSE_GRACE_MS = 500;

/** Starts a legacy backend; rejects where the port or the database can't be had. */
export async function startLegacy(options: LegacyOptions = {}): Promise<Legacy> {
  const host = options.host ?? '127.0.0.1';
  const log = options.log ?? (() => undefined);
  const tokens = createTokens(options.jwtSecret, options.tokenTtlMs ?? 12 * 3_600_000);
  const membership = await openMembership(options.membership ?? 'memory', options.membershipLatencyMs ?? 0);

  const server = createServer();
  const connections = new Set<NetSocket>();
  server.on('connection', (socket) => {
    connections.add(socket);
    socket.once('close', () => connections.delete(socket));
  });
  const io = new Server(server, {
    ...(options.corsOrigin === undefined ? {} : { cors: { origin: options.corsOrigin, credentials: true } }),
    ...(options.pingIntervalMs === undefined ? {} : { pingInterval: options.pingIntervalMs }),
    ...(options.pingTimeoutMs === undefined ? {} : { pingTimeout: options.pingTimeoutMs }),
    ...(options.maxPayload === undefined ? {} : { maxHttpBufferSize: options.maxPayload }),
    ...(options.recovery ? { connectionStateRecovery: {} } : {}),
    allowEIO3: options.allowEio3 ?? false,
    cookie: options.cookie ?? false,
  });
  const main = io.of('/');
  const presence = io.of('/presence');
  const callsOnly = io.of('/calls');
  for (const namespace of [main, presence, callsOnly]) authenticate(namespace, tokens);

  const chat = createChat(membership, main);
  const calls = createCalls({
    membership,
    rejoinTimeoutMs: options.rejoinTimeoutMs ?? 60_000,
    reapIntervalMs: options.reapIntervalMs ?? 15_000,
    callLimitMs: options.callLimitMs ?? 6 * 3_600_000,
    log,
  });
  chat.attach(main);
  attachGroups(main, membership);
  attachProbes(main);
  attachPresence(presence);
  for (const namespace of [main, callsOnly]) calls.attach(namespace);

  const files = createFiles(options.maxUpload ?? 64 << 20);
  const tickets =
    (options.tickets ?? true) ? createTickets(tokens, membership, options.ticketTtlMs ?? 300_000) : undefined;
  const rest = createRest({
    tokens,
    chat,
    files,
    tickets,
    corsOrigin: options.corsOrigin,
    cookie: options.cookie ?? false,
    log,
  });
  server.on('request', (req, res) => {
    if (!req.url?.startsWith('/socket.io/')) rest(req, res); // those are Socket.IO's own
  });

  const close = async (): Promise<void> => {
    calls.stop();
    const closed = io.close();
    server.closeAllConnections();
    // A browser that does not read never answers the close frame; ws alone would wait 30 s for it.
    const grace = setTimeout(() => {
      for (const socket of connections) socket.destroy();
    }, CLOSE_GRACE_MS);
    await closed;
    clearTimeout(grace);
    await files.close();
    await membership.close();
  };

  try {
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject);
      // Clients that open a connection per request overflow Node's default backlog of 511.
      server.listen({ host, port: options.port ?? 0, backlog: 4096 }, resolve);
    });
  } catch (error) {
    calls.stop();
    await membership.close();
    throw error;
  }
  const { port } = server.address() as AddressInfo;
  const url = `http://${host.includes(':') ? `[${host}]` : host}:${port}`;
  return { url, port, io, tokens, membership, calls, close };
}

/** Lets only authenticated sockets in, and puts each into the room of its user. */
function authenticate(namespace: Namespace, tokens: Tokens): void {
  namespace.use((socket, next) => {
    const { auth, query, headers } = socket.handshake;
    const user = tokens.verify(auth.token ?? query.token ?? tokenCookie(headers));
    if (!user) return next(new Error('unauthorized'));
    socket.data.user = user;
    next();
  });
  namespace.on('connection', (socket: Socket) => {
    void socket.join(`user:${socket.data.user.id}`);
  });
}
