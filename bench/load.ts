// Browsers of the benchmark: each sends a packet (or a burst of them) and the next once all came back, so that exactly as many
// packets pass in both directions as were asked for. Knows URLs only.
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { frame, PATH, Payloads } from './wire.js';

export interface LoadOptions {
  readonly url: string;
  readonly browsers: number;
  readonly ns: string;
  /** A token for each browser. */
  token(browser: number): string;
}

export interface Traffic {
  /** The event, of 200 bytes. */
  readonly text: string;
  /** Packets in one write. */
  readonly burst: number;
}

interface Browser {
  readonly socket: Socket;
  back: (bytes: number) => void;
}

export class Load {
  readonly #browsers: readonly Browser[];

  private constructor(browsers: readonly Browser[]) {
    this.#browsers = browsers;
  }

  static async open({ url, browsers, ns, token }: LoadOptions): Promise<Load> {
    const all: Browser[] = [];
    for (let i = 0; i < browsers; i++) all.push(await browser(url, ns, token(i)));
    return new Load(all);
  }

  /** Sends `packets` in all and resolves once every one of them came back with its length. */
  async play(packets: number, { text, burst }: Traffic): Promise<void> {
    const one = frame(text, true);
    const bytes = Buffer.concat(Array.from({ length: burst }, () => one));
    const expected = burst * frame(text, false).length;
    const rounds = Math.ceil(packets / burst / this.#browsers.length);
    await Promise.all(
      this.#browsers.map(
        (browser) =>
          new Promise<void>((resolve, reject) => {
            let left = rounds;
            let got = 0;
            browser.socket.once('close', () => reject(new Error('a connection was closed')));
            browser.back = (length) => {
              got += length;
              if (got > expected) reject(new Error('more came back than was sent'));
              if (got !== expected) return;
              got = 0;
              if (--left === 0) {
                browser.socket.removeAllListeners('close');
                resolve();
              } else browser.socket.write(bytes);
            };
            browser.socket.write(bytes);
          }),
      ),
    );
  }

  close(): void {
    for (const { socket } of this.#browsers) socket.destroy();
  }
}

async function browser(url: string, ns: string, token: string): Promise<Browser> {
  const { hostname, port, host } = new URL(url);
  const socket = connect(Number(port), hostname);
  socket.setNoDelay(true);
  await once(socket, 'connect');
  socket.write(
    `GET ${PATH} HTTP/1.1\r\nHost: ${host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n`,
  );
  const place = ns === '/' ? '' : `${ns},`;
  socket.write(frame(`40${place}${JSON.stringify({ token })}`, true));
  await joined(socket, `40${place}{"sid"`);
  const it: Browser = { socket, back: () => undefined };
  socket.on('data', (chunk: Buffer) => it.back(chunk.length));
  socket.on('error', () => socket.destroy());
  return it;
}

/** The 101, the handshake and the CONNECT answer have come. */
function joined(socket: Socket, greeting: string): Promise<void> {
  return new Promise<void>((resolve, reject) => {
    const payloads = new Payloads();
    let head = '';
    const read = (chunk: Buffer): void => {
      let bytes = chunk;
      if (!head.includes('\r\n\r\n')) {
        head += chunk.toString('latin1');
        const end = head.indexOf('\r\n\r\n');
        if (end < 0) return;
        if (!head.startsWith('HTTP/1.1 101')) reject(new Error(head.split('\r\n')[0]));
        bytes = Buffer.from(head.slice(end + 4), 'latin1');
      }
      for (const payload of payloads.of(bytes)) {
        if (!payload.toString('latin1').startsWith(greeting)) continue;
        socket.off('data', read);
        resolve();
      }
    };
    socket.on('data', read);
    socket.once('close', () => reject(new Error('the proxy closed the connection')));
  }).finally(() => socket.removeAllListeners('close'));
}
