// A load balancer of the tests' own: each TCP connection goes to one of the instances that say that they are ready, as Kubernetes
// or nginx would have it. For WebSocket alone, since polling needs a sticky rule. Knows nothing of sigfig but `/readyz`.
import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';

export interface Backend {
  readonly url: string;
  readonly admin: string;
}

export interface Balancer {
  readonly url: string;
  add(backend: Backend): void;
  remove(backend: Backend): void;
  close(): Promise<void>;
}

const everyMs = 50;

export async function startBalancer(first: readonly Backend[]): Promise<Balancer> {
  const backends = new Map<Backend, boolean>(first.map((one) => [one, true]));
  const open = new Set<Socket>();
  let next = 0;
  let going = true;

  const look = async (): Promise<void> => {
    while (going) {
      await Promise.all(
        [...backends.keys()].map(async (one) => {
          const ready = await fetch(`${one.admin}/readyz`, { signal: AbortSignal.timeout(1_000) }).then(
            ({ status }) => status === 200,
            () => false, // gone: as not ready
          );
          if (backends.has(one)) backends.set(one, ready);
        }),
      );
      await new Promise((resolve) => setTimeout(resolve, everyMs));
    }
  };
  const looking = look();

  const server = createServer((browser) => {
    open.add(browser);
    browser.once('close', () => open.delete(browser));
    browser.on('error', () => browser.destroy());
    const ready = [...backends].filter(([, is]) => is).map(([one]) => one);
    const order = ready.map((_, i) => ready[(next + i) % ready.length] as Backend);
    next++;
    attempt(browser, order);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');

  /** The next one where this one can't be reached. */
  function attempt(browser: Socket, [one, ...others]: readonly Backend[]): void {
    if (!one) {
      browser.destroy();
      return;
    }
    const { port } = new URL(one.url);
    const there = connect(Number(port), '127.0.0.1');
    let connected = false;
    there.once('connect', () => {
      connected = true;
      browser.pipe(there).pipe(browser);
    });
    there.on('error', () => {
      if (connected) browser.destroy();
      else attempt(browser, others);
    });
    there.once('close', () => connected && browser.destroy());
    browser.once('close', () => there.destroy());
  }

  return {
    url: `http://127.0.0.1:${(server.address() as { port: number }).port}`,
    add: (backend) => void backends.set(backend, false),
    remove: (backend) => void backends.delete(backend),
    async close() {
      going = false;
      await looking;
      for (const socket of open) socket.destroy();
      server.close();
    },
  };
}
