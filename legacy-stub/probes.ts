// Events that exist to be tried out: who am I, an echo, binary answers, a question from the server, a flood.
// Knows nothing of what the legacy is for.
import type { Namespace, Socket } from 'socket.io';
import { Refusal, serve, userOf } from './events.js';

const MAX_FLOOD = 1 << 30;
const MAX_CHUNK = 16 << 20;
/** How long the server waits for the answer to `are-you-there`. */
const ANSWER_MS = 10_000;

export function attachProbes(namespace: Namespace): void {
  namespace.on('connection', (socket) => {
    serve(socket, 'whoami', () => ({ user: userOf(socket), socketId: socket.id, recovered: socket.recovered }));

    socket.on('echo', (...args: unknown[]) => {
      const last = args.at(-1);
      if (typeof last === 'function') last(...args.slice(0, -1));
      else socket.emit('echo', ...args);
    });

    serve(socket, 'blob', ({ bytes }) => ({ data: pattern(size(bytes ?? 1024, 'bytes', MAX_CHUNK)) }));

    serve(socket, 'ask-me', () => {
      const question = { askedAt: Date.now() };
      socket.timeout(ANSWER_MS).emit('are-you-there', question, (error: Error | null, answer: unknown) => {
        socket.emit('you-answered', error ? { error: 'no answer' } : { answer });
      });
      return {};
    });

    serve(socket, 'flood', async ({ bytes, chunk }) => await flood(socket, size(bytes, 'bytes', MAX_FLOOD), chunk));
  });
}

/** Pushes `bytes` in binary `flood-data` events and waits for nobody: a reader that stalls fills what lies between. */
async function flood(socket: Socket, bytes: number, chunk: unknown): Promise<object> {
  const part = pattern(size(chunk ?? 65_536, 'chunk', MAX_CHUNK));
  let sent = 0;
  for (let sequence = 0; sent < bytes && socket.connected; sequence++) {
    const data = part.subarray(0, Math.min(part.length, bytes - sent));
    sent += data.length;
    socket.emit('flood-data', { sequence, data });
    if (sequence % 16 === 15) await new Promise((resolve) => setImmediate(resolve));
  }
  return { sent };
}

function pattern(length: number): Buffer {
  const data = Buffer.allocUnsafe(length);
  for (let i = 0; i < length; i++) data[i] = i % 251;
  return data;
}

function size(value: unknown, name: string, max: number): number {
  if (typeof value === 'number' && Number.isInteger(value) && value > 0 && value <= max) return value;
  throw new Refusal(`${name} must be a whole number from 1 to ${max}`);
}
