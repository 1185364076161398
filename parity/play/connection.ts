// One connection of a device: an unmodified Socket.IO client whose received packets are written down as they come, and
// whose TCP connections can be ended in every way that a network ends them. Knows nothing of steps or scenarios.
import { io, type ManagerOptions, type Socket, type SocketOptions } from 'socket.io-client';
import type { Drop, Transport } from '../scenario.js';
import { Deep } from '../values.js';
import { Problem, within } from './problem.js';
import type { Entry } from './transcript.js';
import { Wire } from './wire.js';

export interface ConnectionOptions {
  /** Without a slash at the end. */
  readonly url: string;
  readonly namespace: string;
  readonly transport: Transport;
  readonly token: string | undefined;
  readonly retries: number | undefined;
  readonly ackTimeout: number | undefined;
  /** Shown in problems. */
  readonly device: string;
  readonly patienceMs: number;
}

/** What the client keeps to itself and a test of the wire needs: ids of acknowledgements, packets out and in. */
interface Inner {
  ids: number;
  acks: Record<number, ((...args: unknown[]) => void) | undefined>;
  flags: Record<string, unknown>;
  packet(packet: { data: unknown[]; id?: number }): void;
  onack(packet: { id: number; data: unknown[] }): void;
}
interface InnerEngine {
  _pingTimeoutTimer: NodeJS.Timeout | undefined;
  transport: { name: string };
  write(text: string): void;
}

const transportsOf: Readonly<Record<Transport, ManagerOptions['transports']>> = {
  websocket: ['websocket'],
  polling: ['polling'],
  upgrade: ['polling', 'websocket'],
};

/** A conversation that the runner uses for itself: what is said of it belongs to no transcript. */
export const isOwnConversation = (id: unknown): boolean => typeof id === 'string' && id.includes('parity-own-');

export class Connection {
  readonly options: ConnectionOptions;
  readonly #socket: Socket;
  readonly #inner: Inner;
  readonly #wire: Wire;
  readonly #note: (entry: Entry) => void;
  /** Names of emitted events by the id of their acknowledgement; undefined for the runner's own. */
  readonly #names = new Map<number, string | undefined>();
  readonly #gone: Promise<void>;
  #leave!: () => void;
  #leaving = false;
  #silenced = false;
  #own = false;
  /** Malformed candidates of the runner's own that are under way, and refusals that may be theirs. */
  #behind = 0;
  #refusals: Entry[] = [];
  #paused = false;
  /** Interval and timeout of the server's heartbeat together: so long a silence can stay unnoticed. */
  heartbeatMs = 45_000;

  constructor(options: ConnectionOptions, note: (entry: Entry) => void) {
    this.options = options;
    this.#note = note;
    this.#wire = new Wire(options.url);
    this.#gone = new Promise((resolve) => (this.#leave = resolve));
    const { url, namespace, transport, token, retries, ackTimeout } = options;
    const given: Partial<ManagerOptions & SocketOptions> = {
      transports: transportsOf[transport] as string[],
      forceNew: true,
      reconnection: false,
      autoConnect: false,
      agent: this.#wire.agent as unknown as string,
      ...(token === undefined ? {} : { auth: { token } }),
      ...(retries === undefined ? {} : { retries, ackTimeout: ackTimeout ?? 1_000 }),
    };
    this.#socket = io(url + (namespace === '/' ? '' : namespace), given);
    this.#inner = this.#socket as unknown as Inner;
    this.#listen();
  }

  #listen(): void {
    const socket = this.#socket;
    const inner = this.#inner;
    socket.onAny((name: string, ...args: unknown[]) => {
      if (this.#silenced) return; // it came before the end, and is only read at the end
      if (name === 'error' && isOwnConversation((args[0] as { conversationId?: unknown } | null)?.conversationId))
        return;
      const entry: Entry = { kind: 'event', name, args };
      if (this.#behind > 0 && isMalformedCandidate(entry)) this.#refusals.push(entry);
      else this.#note(entry);
    });
    socket.on('disconnect', (reason) => {
      if (!this.#leaving) this.#note({ kind: 'disconnected', name: reason });
      this.#leave();
    });
    const send = inner.packet.bind(socket);
    inner.packet = (packet) => {
      if (packet.id !== undefined) this.#names.set(packet.id, this.#own ? undefined : String(packet.data[0]));
      send(packet);
    };
    const onack = inner.onack.bind(socket);
    inner.onack = (packet) => {
      const name = this.#names.has(packet.id) ? this.#names.get(packet.id) : `an event never sent (${packet.id})`;
      // Copied: the client puts an error before them for a caller that wants one.
      if (name !== undefined && !this.#silenced) this.#note({ kind: 'ack', name, args: [...packet.data] });
      onack(packet);
    };
  }

  /** True once connected, false where the server refused. @throws Problem where there is no server. */
  async connect(): Promise<boolean> {
    const { device, url, transport, patienceMs } = this.options;
    const socket = this.#socket;
    const answered = new Promise<boolean>((resolve, reject) => {
      socket.once('connect', () => {
        this.everId = socket.id ?? '';
        resolve(true);
      });
      socket.once('connect_error', (error) => {
        const { type, message } = error as Error & { type?: string };
        if (type === 'TransportError') reject(new Problem(`${device} can't connect to ${url}: ${message}`));
        const { data } = error as { data?: unknown };
        this.#note({
          kind: 'event',
          name: 'connect_error',
          args: [data === undefined ? { message } : { message, data }],
        });
        resolve(false);
      });
    });
    socket.connect();
    socket.io.engine.on('handshake', (handshake: { pingInterval: number; pingTimeout: number }) => {
      this.heartbeatMs = handshake.pingInterval + handshake.pingTimeout;
    });
    const connected = await within(patienceMs, `${device} is connected to ${url}`, answered);
    if (!connected) this.#wire.close();
    else if (transport === 'upgrade' && socket.io.engine.transport.name !== 'websocket') {
      const upgraded = new Promise<void>((resolve) => socket.io.engine.once('upgrade', () => resolve()));
      await within(patienceMs, `${device} has upgraded to websocket`, upgraded);
    }
    return connected;
  }

  get id(): string {
    return this.#socket.id ?? '';
  }

  /** The id that it had, also once the connection has ended. */
  everId = '';

  /** Takes part: neither gone, nor silent, nor paused. */
  get active(): boolean {
    return this.#socket.connected && !this.#silenced && !this.#leaving && !this.#paused;
  }

  get connected(): boolean {
    return this.#socket.connected && !this.#leaving;
  }

  get silenced(): boolean {
    return this.#silenced;
  }

  get paused(): boolean {
    return this.#paused;
  }

  /** Resolves with the acknowledgement, or with undefined once the connection has ended; at once where none is asked for. */
  emit(event: string, args: readonly unknown[], ack: boolean): Promise<readonly unknown[] | undefined> {
    if (args.some(hasDeep)) return this.#emitDeep(event, args, ack);
    if (!ack) {
      this.#socket.emit(event, ...args);
      return Promise.resolve(undefined);
    }
    const answered = new Promise<readonly unknown[]>((resolve) => {
      this.#socket.emit(event, ...args, (...answer: unknown[]) => resolve(answer));
    });
    return Promise.race([answered, this.#gone.then(() => undefined)]);
  }

  /** An event of the runner's own, past the queue of a client with `retries`; it is in no transcript. */
  ask(event: string, args: readonly unknown[]): Promise<readonly unknown[] | undefined> {
    this.#own = true;
    // A client with `retries` would take its own ackTimeout for an answer, and a barrier would be over before it has come.
    const { retries, patienceMs } = this.options;
    this.#inner.flags = { fromQueue: true, ...(retries === undefined ? {} : { timeout: 2 * patienceMs }) };
    try {
      return this.emit(event, args, true).then((answer) =>
        this.options.retries === undefined ? answer : answer?.slice(answer[0] === null ? 1 : 0),
      );
    } finally {
      this.#own = false;
    }
  }

  /**
   * Refused on whatever path this conversation's relays travel, behind what this device said about it before. Neither the
   * refusal nor its acknowledgement is in a transcript.
   */
  async askBehind(conversationId: string): Promise<void> {
    this.#behind++;
    await this.ask('ice-candidate', [{ conversationId }]);
    this.#behind--;
    // Its own came last, just before its acknowledgement.
    this.#refusals.pop();
    if (this.#behind === 0) for (const entry of this.#refusals.splice(0)) this.#note(entry);
  }

  /** The same without an acknowledgement. */
  tell(event: string, args: readonly unknown[]): void {
    this.#inner.flags = { fromQueue: true };
    this.#socket.emit(event, ...args);
  }

  /** Values too deep for JSON.stringify go into the packet's text. */
  #emitDeep(event: string, args: readonly unknown[], ack: boolean): Promise<readonly unknown[] | undefined> {
    const depths: number[] = [];
    const json = JSON.stringify([event, ...args], (_key, value: unknown) => {
      if (!(value instanceof Deep)) return value;
      depths.push(value.depth);
      return `parity-deep-${depths.length - 1}`;
    }).replace(/"parity-deep-(\d+)"/g, (_all, i: string) => {
      const depth = depths[Number(i)] ?? 0;
      return '['.repeat(depth) + ']'.repeat(depth);
    });
    const { namespace } = this.options;
    const prefix = namespace === '/' ? '' : `${namespace},`;
    const engine = this.#socket.io.engine as unknown as InnerEngine;
    if (!ack) {
      engine.write(`2${prefix}${json}`);
      return Promise.resolve(undefined);
    }
    const id = this.#inner.ids++;
    this.#names.set(id, event);
    const answered = new Promise<readonly unknown[]>((resolve) => {
      this.#inner.acks[id] = (...answer) => resolve(answer);
    });
    engine.write(`2${prefix}${id}${json}`);
    return Promise.race([answered, this.#gone.then(() => undefined)]);
  }

  /** A poll waits at the server: losing the connection now is noticed there, and not by the heartbeat alone. */
  async ready(ownConversation: string): Promise<void> {
    const engine = this.#socket.io.engine as unknown as InnerEngine;
    if (engine.transport.name !== 'polling') return;
    const until = performance.now() + this.options.patienceMs;
    while (!this.#wire.polls) {
      if (performance.now() > until) throw new Problem(`${this.options.device} has no poll under way`);
      await new Promise((resolve) => setImmediate(resolve));
    }
    // Sent after the poll was written: once this POST is answered, the poll has arrived as well.
    const drained = new Promise<void>((resolve) => this.#socket.io.engine.once('drain', () => resolve()));
    this.tell('ice-candidate', [{ conversationId: ownConversation, iceCandidate: 'parity' }]);
    await within(this.options.patienceMs, `${this.options.device} has sent what it had`, drained);
  }

  drop(how: Drop): void {
    if (how === 'silence') {
      this.#silenced = true;
      // The client's own heartbeat check would close the connection.
      clearTimeout((this.#socket.io.engine as unknown as InnerEngine)._pingTimeoutTimer);
      this.#wire.pause();
      return;
    }
    this.#leaving = true;
    if (how === 'fin') this.#wire.fin();
    else if (how === 'rst') this.#wire.reset();
    else if (how === 'close') this.#socket.io.engine.close();
    else this.#socket.disconnect();
    this.#leave();
  }

  pause(): void {
    this.#paused = true;
    this.#wire.pause();
  }

  resume(): void {
    this.#paused = false;
    this.#wire.resume();
  }

  /** Says goodbye where that is possible, and lets go of everything. */
  async close(): Promise<void> {
    const { engine } = this.#socket.io;
    if (engine && !this.#leaving && !this.#silenced && this.#socket.connected) {
      this.#leaving = true;
      const closed = new Promise<void>((resolve) => engine.once('close', () => resolve()));
      this.#wire.resume();
      this.#socket.disconnect();
      await Promise.race([closed, new Promise((resolve) => setTimeout(resolve, 1_000).unref())]);
    }
    this.#leaving = true;
    this.#leave();
    this.#wire.close();
    this.#socket.disconnect();
  }
}

function isMalformedCandidate(entry: Entry): boolean {
  if (entry.kind !== 'event' || entry.name !== 'error') return false;
  const { event, message } = (entry.args[0] ?? {}) as { event?: unknown; message?: unknown };
  return event === 'ice-candidate' && String(message).startsWith('Malformed ice-candidate');
}

function hasDeep(value: unknown): boolean {
  if (value instanceof Deep) return true;
  if (typeof value !== 'object' || value === null || value instanceof Uint8Array) return false;
  return Object.values(value).some(hasDeep);
}
