// The legacy of the random play: the stub's own call handlers between links instead of a network, and what it knows as a fact
// (what arrived, which call it has). Knows nothing of the proxy.
import type { Namespace, Socket } from 'socket.io';
import { createCalls } from '../../legacy-stub/calls.js';
import { directParticipants } from '../../legacy-stub/membership.js';
import { decodeArgs, encodeAck, encodeEvent, parsePacket } from '../../src/protocol/socketio.js';
import type { Link, Links } from './links.js';

type Listener = (...args: unknown[]) => void;

/** One connection's end at the legacy. */
export interface LegacyEnd {
  receive(text: string): void;
  closed(): void;
}

export interface LegacyTold {
  arrived(name: string, payload: unknown): void;
  /** It accepted the offer with this tag. */
  accepted(tag: string): void;
}

const never = 2_000_000_000;

export class PlayedLegacy {
  readonly #calls = createCalls({
    membership: {
      participants: (id) => new Promise((found) => this.#database.push(() => found(directParticipants(id)))),
    },
    ...{ rejoinTimeoutMs: never, reapIntervalMs: never, callLimitMs: never, log: () => undefined },
  });
  /** Lookups that have not been answered yet. */
  readonly #database: Link<() => void>;
  readonly #sockets = new Set<{ readonly socket: Socket; readonly user: string }>();
  /** Tag of the offer of each conversation's call. */
  readonly #tags = new Map<string, string>();
  #onConnection: (socket: Socket) => void = () => undefined;
  #ids = 0;
  readonly #told: LegacyTold;

  constructor(links: Links, told: LegacyTold) {
    this.#database = links.open<() => void>((answer) => answer());
    this.#told = told;
    const to = (room: string, except?: string) => ({
      emit: (event: string, arg: unknown) => {
        for (const { socket, user } of [...this.#sockets]) {
          if (`user:${user}` === room && socket.id !== except) socket.emit(event, arg);
        }
      },
      except: (id: string) => to(room, id),
    });
    this.#calls.attach({
      name: '/',
      on: (_event: string, listener: (socket: Socket) => void) => {
        this.#onConnection = listener;
      },
      to,
    } as unknown as Namespace);
  }

  /** Tag of the offer whose call it has for this conversation. */
  tag(conversationId: string): string | undefined {
    return this.#calls.state('/', conversationId) === undefined ? undefined : this.#tags.get(conversationId);
  }

  connection(send: (text: string) => void): LegacyEnd {
    const listeners = new Map<string, Listener>();
    let here: { readonly socket: Socket; readonly user: string } | undefined;
    const open = (user: string): void => {
      const socket = {
        id: `sid-${++this.#ids}`,
        data: { user: { id: user } },
        connected: true,
        on: (event: string, listener: Listener) => listeners.set(event, listener),
        emit: (event: string, arg: unknown) => {
          if (socket.connected) send(encodeEvent('/', event, [arg]).text);
        },
      };
      here = { socket: socket as unknown as Socket, user };
      this.#sockets.add(here);
      send(`40{"sid":"${socket.id}"}`);
      this.#onConnection(here.socket);
    };
    return {
      receive: (text) => {
        const packet = parsePacket(text, []);
        if (!packet) throw new Error(`not a packet: ${text}`);
        const args = decodeArgs(packet) ?? [];
        if (packet.name === undefined) return open((args[0] as { token: string }).token);
        const { name, id } = packet;
        const payload = args[0] as { conversationId: string; offer?: { about: string } };
        this.#told.arrived(name, payload);
        const ack = (answer: unknown): void => {
          if (name === 'call-offer' && (answer as { ok: boolean }).ok) {
            const tag = payload.offer?.about as string;
            this.#tags.set(payload.conversationId, tag);
            this.#told.accepted(tag);
          }
          if (here?.socket.connected && id !== undefined) send(encodeAck('/', id, [answer]).text);
        };
        const serve = listeners.get(name);
        if (serve) serve(payload, ack);
        else ack({ ok: true });
      },
      closed: () => {
        if (!here) return;
        this.#sockets.delete(here);
        (here.socket as { connected: boolean }).connected = false;
        listeners.get('disconnect')?.();
      },
    };
  }

  stop(): void {
    this.#calls.stop();
  }
}
