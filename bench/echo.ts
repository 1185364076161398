// A legacy that greets like socket.io and then sends every event back as it came: the far end of the benchmark, in a process
// of its own. Prints `ready URL`. Knows nothing of sigfig.
import { createServer } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { acceptOf, frame, Payloads } from './wire.js';

const OPEN = '0{"sid":"bench","upgrades":[],"pingInterval":3600000,"pingTimeout":3600000,"maxPayload":1000000}';
const SHORT = Buffer.from([0x81, 0]);
const LONG = Buffer.from([0x81, 126, 0, 0]);

let sockets = 0;
const server = createServer((_request, response) => response.end('bench'));
server.on('upgrade', (request, stream) => {
  const socket = stream as Socket;
  socket.setNoDelay(true);
  socket.on('error', () => socket.destroy());
  socket.write(
    `HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${acceptOf(request.headers['sec-websocket-key'] ?? '')}\r\n\r\n`,
  );
  socket.write(frame(OPEN, false));
  const payloads = new Payloads();
  socket.on('data', (chunk: Buffer) => {
    const answers: Buffer[] = [];
    for (const payload of payloads.of(chunk)) {
      if (payload[1] === 0x30) {
        const ns = /^40(\/[^,]*,)?/.exec(payload.toString('latin1'))?.[1] ?? '';
        answers.push(frame(`40${ns}{"sid":"s${++sockets}"}`, false));
      } else {
        const head = Buffer.from(payload.length < 126 ? SHORT : LONG);
        if (payload.length < 126) head[1] = payload.length;
        else head.writeUInt16BE(payload.length, 2);
        answers.push(head, payload);
      }
    }
    if (answers.length > 0) socket.write(Buffer.concat(answers));
  });
});
server.listen(0, '127.0.0.1', () => {
  process.stdout.write(`ready http://127.0.0.1:${(server.address() as AddressInfo).port}\n`);
});
