// What the tests of the legacy share: devices (real Socket.IO clients that note all they are told) and small requests.
// Knows nothing of what is tested with them.
import { io, type ManagerOptions, type Socket, type SocketOptions } from 'socket.io-client';
import type { Legacy } from './server.js';

export type Told = [event: string, ...args: unknown[]];

/** Longest wait for anything, in ms. */
const PATIENCE = 5_000;

/** One connection of a user, in one namespace. */
export class Device {
  readonly socket: Socket;
  /** What the server sent since the last `take`, in order. */
  #told: Told[] = [];
  #wake: (() => void)[] = [];

  constructor(socket: Socket) {
    this.socket = socket;
    socket.onAny((event: string, ...args: unknown[]) => {
      this.#told.push([event, ...args]);
      for (const wake of this.#wake.splice(0)) wake();
    });
  }

  /** Everything told since the last time. */
  take(): Told[] {
    return this.#told.splice(0);
  }

  /** Waits for the next of what is told, in order. */
  async next(): Promise<Told> {
    const until = Date.now() + PATIENCE;
    while (this.#told.length === 0) {
      await new Promise<void>((resolve, reject) => {
        const timer = setTimeout(() => reject(new Error('nothing was told')), until - Date.now());
        this.#wake.push(() => {
          clearTimeout(timer);
          resolve();
        });
      });
    }
    return this.#told.shift()!;
  }

  /** Sends an event and waits for its acknowledgement: the list of its arguments. */
  ask(event: string, ...args: unknown[]): Promise<unknown[]> {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error(`${event} was not acknowledged`)), PATIENCE);
      this.socket.emit(event, ...args, (...answer: unknown[]) => {
        clearTimeout(timer);
        resolve(answer);
      });
    });
  }

  /** Sends an event that asks for no acknowledgement, and waits until the server has seen to it. */
  async tell(event: string, ...args: unknown[]): Promise<void> {
    this.socket.emit(event, ...args);
    await this.settle();
  }

  /** Afterwards, everything that the server had sent to this device has arrived. Needs the probes of `/`. */
  async settle(): Promise<void> {
    await this.ask('echo');
  }

  /** Drops the connection as a lost network would, and waits until the server has noticed. */
  async drop(legacy: Legacy): Promise<void> {
    const { id } = this.socket;
    const there = legacy.io.of((this.socket as unknown as { nsp: string }).nsp).sockets.get(id ?? '');
    const noticed = new Promise<void>((resolve) => {
      if (there) there.once('disconnect', () => resolve());
      else resolve();
    });
    this.socket.io.engine.close();
    this.socket.io.reconnection(false);
    await noticed;
  }
}

export interface Clients {
  /** A connected device of this user; `/presence` and others by `namespace`. */
  connect(user: string, namespace?: string, options?: Partial<ManagerOptions & SocketOptions>): Promise<Device>;
  /** A request with this user's token. */
  request(user: string | undefined, method: string, path: string, body?: unknown): Promise<Response>;
  token(user: string): string;
  close(): void;
}

export function clientsOf(legacy: Legacy): Clients {
  const sockets: Socket[] = [];
  const token = (user: string) => legacy.tokens.issue({ id: user, name: user });
  return {
    token,
    async connect(user, namespace = '/', options = {}) {
      const socket = io(legacy.url + namespace, {
        transports: ['websocket'],
        forceNew: true,
        auth: { token: token(user) },
        reconnection: false,
        ...options,
      });
      sockets.push(socket);
      const device = new Device(socket);
      await new Promise<void>((resolve, reject) => {
        socket.once('connect', resolve);
        socket.once('connect_error', reject);
      });
      return device;
    },
    request(user, method, path, body) {
      const raw = typeof body === 'string' || body instanceof Uint8Array;
      return fetch(legacy.url + path, {
        method,
        headers: user === undefined ? {} : { authorization: `Bearer ${token(user)}` },
        ...(body === undefined ? {} : { body: raw ? (body as string) : JSON.stringify(body) }),
      });
    },
    close() {
      for (const socket of sockets) socket.disconnect();
    },
  };
}
