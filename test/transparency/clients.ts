// Clients that show every byte that matters: a plain HTTP request, a polling session, a WebSocket, a bare TCP socket.
// They know nothing of whom they talk to, and decide nothing that a script did not ask for.
import { once } from 'node:events';
import http from 'node:http';
import net from 'node:net';
import { WebSocket } from 'ws';

const PATIENCE_MS = 8_000;

/** Resolves with the next value put in; rejects when nothing comes. */
export class Inbox<T> {
  readonly #values: T[] = [];
  readonly #waiting: ((value: T) => void)[] = [];

  put(value: T): void {
    const first = this.#waiting.shift();
    if (first) first(value);
    else this.#values.push(value);
  }

  next(): Promise<T> {
    const value = this.#values.shift();
    if (value !== undefined) return Promise.resolve(value);
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error(`nothing came within ${PATIENCE_MS} ms`)), PATIENCE_MS);
      this.#waiting.push((v) => {
        clearTimeout(timer);
        resolve(v);
      });
    });
  }

  async take(count: number): Promise<T[]> {
    const values: T[] = [];
    while (values.length < count) values.push(await this.next());
    return values;
  }

  /** What is here already. */
  drain(): T[] {
    return this.#values.splice(0);
  }
}

export interface Answer {
  readonly status: number;
  /** `name: value`, lower-case names, sorted; without what belongs to one hop or one moment. */
  readonly headers: readonly string[];
  readonly body: Buffer;
  readonly text: string;
}

export interface Asked {
  readonly method?: string;
  readonly headers?: http.OutgoingHttpHeaders;
  readonly body?: string | Buffer;
}

const ONE_HOP = new Set(['connection', 'keep-alive', 'date', 'transfer-encoding']);

export function shownHeaders(raw: readonly string[]): string[] {
  const lines: string[] = [];
  for (let i = 0; i + 1 < raw.length; i += 2) {
    const name = String(raw[i]).toLowerCase();
    if (!ONE_HOP.has(name)) lines.push(`${name}: ${raw[i + 1]}`);
  }
  return lines.sort();
}

/** One request on a connection of its own. */
export async function ask(base: string, path: string, asked: Asked = {}): Promise<Answer> {
  const request = http.request(base, {
    path,
    method: asked.method ?? 'GET',
    headers: asked.headers ?? {},
    agent: false,
  });
  request.end(asked.body);
  const [response] = (await once(request, 'response', { signal: AbortSignal.timeout(PATIENCE_MS) })) as [
    http.IncomingMessage,
  ];
  const parts: Buffer[] = [];
  for await (const part of response) parts.push(part as Buffer);
  const body = Buffer.concat(parts);
  return {
    status: response.statusCode ?? 0,
    headers: shownHeaders(response.rawHeaders),
    body,
    text: body.toString('utf8'),
  };
}

/** A session on long polling, packet by packet. */
export class Polling {
  readonly base: string;
  readonly path: string;
  readonly handshake: Answer;
  readonly sid: string;

  private constructor(base: string, path: string, handshake: Answer) {
    this.base = base;
    this.handshake = handshake;
    this.sid = /"sid":"([^"]+)"/.exec(handshake.text)?.[1] ?? '';
    this.path = `${path}&sid=${encodeURIComponent(this.sid)}`;
  }

  static async open(base: string, more = '', headers: http.OutgoingHttpHeaders = {}): Promise<Polling> {
    const path = `/socket.io/?EIO=4&transport=polling${more}`;
    return new Polling(base, path, await ask(base, path, { headers }));
  }

  get(headers: http.OutgoingHttpHeaders = {}): Promise<Answer> {
    return ask(this.base, this.path, { headers });
  }

  post(body: string | Buffer, headers: http.OutgoingHttpHeaders = {}): Promise<Answer> {
    const type = headers['content-type'] ?? 'text/plain;charset=UTF-8';
    return ask(this.base, this.path, { method: 'POST', body, headers: { ...headers, 'content-type': type } });
  }

  /** Polls until this many packets came. */
  async packets(count: number): Promise<string[]> {
    const packets: string[] = [];
    while (packets.length < count) packets.push(...(await this.get()).text.split('\x1e'));
    return packets;
  }
}

export interface WsAsked {
  readonly query?: string;
  readonly path?: string;
  readonly headers?: Record<string, string>;
  readonly protocols?: string[];
  readonly deflate?: boolean;
}

/** A WebSocket: texts as they are, binary as `<hex>`, then one `close …`; or `refused STATUS BODY`. */
export class Ws {
  readonly socket: WebSocket;
  readonly inbox = new Inbox<string>();
  /** Of the 101 or of the refusal. */
  headers: readonly string[] = [];

  private constructor(socket: WebSocket) {
    this.socket = socket;
    socket.on('message', (data: Buffer, binary) => {
      this.inbox.put(binary ? `<${data.toString('hex')}>` : data.toString('utf8'));
    });
    socket.on('ping', (data: Buffer) => this.inbox.put(`ping ${data.toString('utf8')}`));
    socket.on('pong', (data: Buffer) => this.inbox.put(`pong ${data.toString('utf8')}`));
    socket.on('close', (code, reason) => this.inbox.put(`close ${code} ${reason.toString('utf8')}`));
    socket.on('error', (error) => this.inbox.put(`error ${error.message}`));
    socket.on('upgrade', (response) => {
      this.headers = shownHeaders(response.rawHeaders).filter((line) => !line.startsWith('sec-websocket-accept'));
    });
    socket.on('unexpected-response', async (_request, response) => {
      const parts: Buffer[] = [];
      for await (const part of response) parts.push(part as Buffer);
      this.headers = shownHeaders(response.rawHeaders);
      this.inbox.put(`refused ${response.statusCode} ${Buffer.concat(parts).toString('utf8')}`);
    });
  }

  /** Resolves once it is open or refused. */
  static async open(base: string, asked: WsAsked = {}): Promise<Ws> {
    const path = asked.path ?? `/socket.io/?EIO=4&transport=websocket${asked.query ?? ''}`;
    const socket = new WebSocket(base.replace('http', 'ws') + path, asked.protocols ?? [], {
      headers: asked.headers ?? {},
      perMessageDeflate: asked.deflate ?? false,
    });
    const ws = new Ws(socket);
    const settled = new Inbox<string>();
    for (const event of ['open', 'close', 'error', 'unexpected-response']) socket.once(event, () => settled.put(event));
    await settled.next();
    return ws;
  }

  send(...packets: (string | Buffer)[]): void {
    for (const packet of packets) this.socket.send(packet);
  }

  next(): Promise<string> {
    return this.inbox.next();
  }

  take(count: number): Promise<string[]> {
    return this.inbox.take(count);
  }

  /** Everything up to the end, which must come by itself. */
  async rest(): Promise<string[]> {
    const all: string[] = [];
    for (;;) {
      const one = await this.next();
      all.push(one);
      if (one.startsWith('close ') || one.startsWith('refused ')) return all;
    }
  }

  close(code?: number, reason?: string): void {
    this.socket.close(code, reason);
  }
}

/** Writes `first`, then `later` once `awaited` came, and returns all that came back until the other side closed. */
export async function bytes(
  base: string,
  first: string | Buffer,
  awaited = '',
  later: string | Buffer = '',
): Promise<{ text: string; error: string }> {
  const { hostname, port } = new URL(base);
  const socket = net.connect(Number(port), hostname);
  let text = '';
  let waiting = awaited !== '';
  let error = '';
  socket.setEncoding('latin1');
  socket.on('data', (part: string) => {
    text += part;
    if (!waiting || !text.includes(awaited)) return;
    waiting = false;
    socket.write(later);
  });
  socket.on('error', (e: NodeJS.ErrnoException) => {
    error = e.code ?? e.message;
  });
  socket.write(first);
  const timer = setTimeout(() => socket.destroy(new Error('no end in sight')), PATIENCE_MS);
  await once(socket, 'close');
  clearTimeout(timer);
  return { text, error };
}

/** A client's frame (masked with zeros unless told) with any header bits, for what no library would send. */
export function frame(
  opcode: number,
  payload: string | Buffer,
  { fin = true, rsv = 0, masked = true }: { fin?: boolean; rsv?: number; masked?: boolean } = {},
): Buffer {
  const data = Buffer.from(payload);
  const first = (fin ? 0x80 : 0) | (rsv << 4) | opcode;
  const bit = masked ? 0x80 : 0;
  const head =
    data.length < 126
      ? Buffer.from([first, bit | data.length])
      : Buffer.from([first, bit | 126, data.length >> 8, data.length & 0xff]);
  return Buffer.concat([head, masked ? Buffer.alloc(4) : Buffer.alloc(0), data]);
}

/** The request that asks for a WebSocket, with a fixed key. */
export function upgradeRequest(path: string, more: readonly string[] = []): string {
  return [
    `GET ${path} HTTP/1.1`,
    'Host: localhost',
    'Connection: Upgrade',
    'Upgrade: websocket',
    'Sec-WebSocket-Version: 13',
    'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==',
    ...more,
    '',
    '',
  ].join('\r\n');
}
