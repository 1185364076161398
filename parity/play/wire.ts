// The TCP connections of one device: an HTTP agent that keeps hold of them, so that they can be ended, reset, or left
// unread. Serves polling and WebSocket alike, since both ask an agent for their connection. Knows nothing of events.
import http from 'node:http';
import https from 'node:https';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';

type Create = (options: object, done?: (error: Error | null, socket: Duplex) => void) => Duplex | null | undefined;

export class Wire {
  readonly agent: http.Agent;
  readonly #sockets = new Set<Socket>();
  #paused = false;
  #cut = false;

  constructor(url: string) {
    const options = { keepAlive: true, maxSockets: Number.POSITIVE_INFINITY };
    this.agent = url.startsWith('https:') ? new https.Agent(options) : new http.Agent(options);
    const owner = this.agent as unknown as { createConnection: Create };
    // The client's XMLHttpRequest (of Node, not of a browser) repeats a failed request on a connection that was used before,
    // and forgets to end it: it would notice nothing until its ping timeout. So none is called reused.
    const reuse = this.agent.reuseSocket.bind(this.agent);
    this.agent.reuseSocket = (socket, request) => {
      reuse(socket, request);
      request.reusedSocket = false;
    };
    const create = owner.createConnection.bind(this.agent) as Create;
    owner.createConnection = (given, done) => {
      const socket = create(given, done);
      if (socket) this.#keep(socket as Socket);
      return socket;
    };
  }

  #keep(socket: Socket): void {
    this.#sockets.add(socket);
    socket.setMaxListeners(0); // the client's requests share it, and each listens anew
    socket.once('close', () => this.#sockets.delete(socket));
    // A reset that comes back; whoever waits on the connection is told by its end.
    socket.on('error', () => socket.destroy());
    if (this.#paused) socket.pause();
    if (this.#cut) socket.destroy();
  }

  /** No connection is opened any more, and those that are open get a FIN. */
  fin(): void {
    this.#cut = true;
    for (const socket of this.#sockets) {
      socket.resume();
      socket.end(() => socket.destroy());
    }
  }

  /** The same with a RST. */
  reset(): void {
    this.#cut = true;
    for (const socket of this.#sockets) socket.resetAndDestroy();
  }

  /** Nothing is read any more; what is written still goes out. */
  pause(): void {
    this.#paused = true;
    for (const socket of this.#sockets) socket.pause();
  }

  resume(): void {
    this.#paused = false;
    for (const socket of this.#sockets) socket.resume();
  }

  /** Whether a GET has been written and waits for its answer. */
  get polls(): boolean {
    for (const socket of this.#sockets) {
      const request = (socket as unknown as { _httpMessage?: http.ClientRequest | null })._httpMessage;
      if (request?.method === 'GET' && request.writableFinished && !socket.connecting) return true;
    }
    return false;
  }

  close(): void {
    for (const socket of this.#sockets) socket.destroy();
    this.agent.destroy();
  }
}
