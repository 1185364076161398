// Threat: more connections than the process may have descriptors. It must live, keep what it has, and not take its own want
// for the legacy's absence.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import net from 'node:net';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { afterEach, expect, it } from 'vitest';
import { callsNew, connect, until } from '../harness.js';
import { processes } from '../processes.js';

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

const sigfig = fileURLToPath(new URL('../../dist/src/cli/sigfig.js', import.meta.url));

it.runIf(process.platform === 'linux')(
  'out of descriptors: what is connected stays, and all is well after',
  async () => {
    const stage = await processes();
    cleanups.push(() => stage.close());
    const legacy = await stage.legacy();
    const routes = join(stage.folder, 'routes.yaml');
    await writeFile(routes, callsNew);
    const any = '127.0.0.1:0';
    const child = spawn(
      'sh',
      [
        ...['-c', 'ulimit -n 120 && exec "$@"', 'sh', process.execPath, sigfig, 'start'],
        ...['--listen', any, '--admin', any, '--metrics', `${any}/metrics`],
        ...['--legacy', legacy.url, '--routes', routes, '--jwt-secret-file', stage.secretFile],
      ],
      { stdio: ['ignore', 'pipe', 'pipe'] },
    );
    cleanups.push(() => child.kill('SIGKILL'));
    let log = '';
    child.stderr.on('data', (chunk: Buffer) => {
      log += chunk.toString();
    });
    const [ready] = (await once(createInterface({ input: child.stdout }), 'line')) as [string];
    const [proxy, admin] = ['proxy', 'admin'].map((name) => new RegExp(`${name}=(\\S+)`).exec(ready)![1]!);
    const alice = await connect(proxy!, 'alice', { transports: ['websocket'] });
    cleanups.push(() => alice.close());

    const { hostname, port } = new URL(proxy!);
    const flood = Array.from({ length: 200 }, () => {
      const socket = net.connect(Number(port), hostname);
      socket.on('error', () => socket.destroy());
      socket.write('GET /other HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n');
      return socket;
    });
    await until(() => log.includes('"what":"sockets"'), 'it is out of descriptors');
    expect(await alice.ask('whoami')).toMatchObject({ ok: true });
    for (const socket of flood) socket.destroy();
    await until(async () => (await fetch(`${admin}/readyz`)).status === 200, 'it is ready');
    const bob = await connect(proxy!, 'bob', { transports: ['polling'] });
    bob.close();
    expect(alice.socket.connected).toBe(true);
    expect(child.exitCode).toBe(null);
    expect(log).not.toContain('legacy is unreachable');
  },
  30_000,
);
