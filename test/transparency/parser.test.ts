// A backend with a parser of its own, all in binary frames: nothing can be read, so everything passes.
import { EventEmitter } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Server } from 'socket.io';
import { io } from 'socket.io-client';
import { Inbox } from './clients.js';
import { sameFor } from './same.js';

type Listener = (...args: unknown[]) => void;

/** Packets as binary JSON with a first byte that is no Socket.IO type, as msgpack parsers send them. */
class Encoder {
  encode(packet: unknown): Buffer[] {
    return [Buffer.concat([Buffer.from([0x84]), Buffer.from(JSON.stringify(packet))])];
  }
}

class Decoder extends EventEmitter {
  add(data: Buffer): void {
    this.emit('decoded', JSON.parse(Buffer.from(data).toString('utf8', 1)));
  }

  destroy(): void {
    // Nothing is kept between packets.
  }
}

const parser = { Encoder, Decoder };

for (const transports of [['websocket'], ['polling'], ['polling', 'websocket']]) {
  sameFor(
    transports.join(', then '),
    5,
    async () => {
      const http = createServer();
      const server = new Server(http, { parser });
      server.on('connection', (socket) => {
        socket.on('echo', (...args: unknown[]) => (args.pop() as Listener)(...args));
        socket.on('call-offer', (payload: unknown, ack: Listener) => {
          socket.emit('call-offer', payload);
          ack({ ok: 'the legacy its own' });
        });
      });
      await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve));
      return {
        url: `http://127.0.0.1:${(http.address() as AddressInfo).port}`,
        close: async () => await server.close(),
      };
    },
    async (url, note) => {
      const socket = io(url, { transports, parser, forceNew: true, reconnection: false, auth: { token: 'x' } });
      const inbox = new Inbox<string>();
      socket.onAny((event: string, ...args: unknown[]) => inbox.put(`${event} ${JSON.stringify(args)}`));
      socket.on('disconnect', (reason) => inbox.put(`disconnect ${reason}`));
      note('echo', await socket.emitWithAck('echo', 1, 'two', { three: 3 }));
      note('offer', await socket.emitWithAck('call-offer', { conversationId: 'dm:a:b', offer: { sdp: 'x' } }));
      note('received', await inbox.next());
      note('many', (await Promise.all(Array.from({ length: 50 }, (_, i) => socket.emitWithAck('echo', i)))).join(' '));
      socket.disconnect();
      note('end', await inbox.next());
    },
  );
}
