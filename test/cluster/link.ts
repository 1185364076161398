// A TCP proxy of the tests' own between an instance and its Redis: cuts, holds or delays it, and counts what passes. Knows the
// framing of RESP requests, so that commands can be counted, and nothing of sigfig.
import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';

export interface Link {
  /** `redis://127.0.0.1:PORT` */
  readonly url: string;
  /** Bytes both ways, TCP's own overhead left out, and requests by the name of their command, upper case. */
  readonly passed: { bytes: number; readonly commands: Map<string, number> };
  /** Of all commands so far. */
  count(): number;
  /** Ends every connection and refuses new ones. */
  cut(): void;
  /** Half-open: connections stay, and are accepted, but nothing passes in either direction. */
  hold(): void;
  /** Milliseconds each way, in order; 0 for none. */
  delay(ms: number): void;
  /** Everything passes again; what was held is lost with its connections. */
  mend(): void;
  close(): Promise<void>;
}

export async function startLink(port: number): Promise<Link> {
  const passed = { bytes: 0, commands: new Map<string, number>() };
  const open = new Set<Socket>();
  let state: 'open' | 'cut' | 'held' = 'open';
  let delayMs = 0;

  /** In order, however the delay changes meanwhile. */
  function pass(from: Socket, to: Socket, seen: (chunk: Buffer) => void): void {
    let last = Promise.resolve();
    from.on('data', (chunk: Buffer) => {
      passed.bytes += chunk.length;
      seen(chunk);
      if (delayMs === 0 && state === 'open') {
        last = last.then(() => void to.write(chunk));
        return;
      }
      const due = new Promise<void>((resolve) => setTimeout(resolve, delayMs));
      last = last.then(() => due).then(() => void (state !== 'open' || to.destroyed || to.write(chunk)));
    });
    from.on('end', () => void last.then(() => to.end()));
    from.on('close', () => to.destroy());
    from.on('error', () => to.destroy());
  }

  const server = createServer((browserSide) => {
    if (state === 'cut') {
      browserSide.resetAndDestroy();
      return;
    }
    const redisSide = connect(port, '127.0.0.1');
    for (const socket of [browserSide, redisSide]) {
      socket.setNoDelay(true);
      open.add(socket);
      socket.once('close', () => open.delete(socket));
    }
    const counter = requests((name) => passed.commands.set(name, (passed.commands.get(name) ?? 0) + 1));
    pass(browserSide, redisSide, counter);
    pass(redisSide, browserSide, () => undefined);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const reset = (): void => {
    for (const socket of open) socket.resetAndDestroy();
  };
  return {
    url: `redis://127.0.0.1:${(server.address() as { port: number }).port}`,
    passed,
    count: () => [...passed.commands.values()].reduce((sum, n) => sum + n, 0),
    cut() {
      state = 'cut';
      reset();
    },
    hold() {
      state = 'held';
    },
    delay(ms) {
      delayMs = ms;
    },
    mend() {
      // A connection that lost bytes in the middle is of no use to anybody.
      if (state === 'held') reset();
      state = 'open';
      delayMs = 0;
    },
    async close() {
      reset();
      server.close();
      await once(server, 'close');
    },
  };
}

/** Tells the name of each request in a stream of RESP arrays (`*2\r\n$3\r\nGET\r\n$1\r\nk\r\n`), however it is cut into chunks. */
function requests(told: (command: string) => void): (chunk: Buffer) => void {
  let rest: Buffer = Buffer.alloc(0);
  /** Of the request under way: arguments to come, and whether its name has been told. */
  let left = 0;
  let named = true;
  return (chunk) => {
    rest = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
    for (;;) {
      const end = rest.indexOf('\r\n');
      if (end < 0) return;
      const size = Number(rest.subarray(1, end).toString('latin1'));
      if (left === 0) {
        left = size;
        named = false;
        rest = rest.subarray(end + 2);
        continue;
      }
      if (rest.length < end + 4 + size) return;
      if (!named) {
        told(
          rest
            .subarray(end + 2, end + 2 + size)
            .toString('latin1')
            .toUpperCase(),
        );
        named = true;
      }
      left--;
      rest = rest.subarray(end + 4 + size);
    }
  };
}
