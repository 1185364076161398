// Runs a file of deploy/ in a real nginx or HAProxy in front of sigfigs, with nothing changed but addresses and ports. Knows nothing of
// what goes through it.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { findProxy } from '../../scripts/proxies.mjs';
import { until } from '../harness.js';

export interface Instance {
  readonly url: string;
  readonly admin: string;
}

export interface InFront {
  readonly url: string;
  /** What it wrote to its log. */
  log(): string;
  close(): Promise<void>;
}

const fileOf = (path: string) => readFile(new URL(`../../deploy/${path}`, import.meta.url), 'utf8');

/** Replaces each of `from`, which must be there, wherever it stands. */
function replaced(text: string, pairs: readonly (readonly [string, string])[]): string {
  return pairs.reduce((current, [from, to]) => {
    if (!current.includes(from)) throw new Error(`the file has no "${from}" to replace`);
    return current.replaceAll(from, to);
  }, text);
}

const portOf = (url: string): string => new URL(url).port;

export const kinds = {
  async nginx(folder: string, port: number, [a, b]: readonly [Instance, Instance]) {
    const site = replaced(await fileOf('nginx/sigfig.conf'), [
      ['sigfig-a:8081', `127.0.0.1:${portOf(a.url)}`],
      ['sigfig-b:8082', `127.0.0.1:${portOf(b.url)}`],
      ['~:8081$', `~:${portOf(a.url)}$`],
      ['~:8082$', `~:${portOf(b.url)}$`],
      ['listen 8080', `listen 127.0.0.1:${port}`],
      ['/var/log/nginx/access.log', join(folder, 'access.log')],
    ]);
    await writeFile(join(folder, 'site.conf'), site);
    const places = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
      .map((name) => `${name}_temp_path ${join(folder, name)};`)
      .join(' ');
    // What the package's own nginx.conf says around it.
    await writeFile(
      join(folder, 'main.conf'),
      `daemon off; worker_processes 1; pid ${join(folder, 'pid')}; error_log stderr warn; events { worker_connections 1024; }
      http { ${places} include ${join(folder, 'site.conf')}; }`,
    );
    return ['-c', join(folder, 'main.conf'), '-e', 'stderr'];
  },

  async haproxy(folder: string, port: number, [a, b]: readonly [Instance, Instance]) {
    // The one line for both instances says the port of their admin listeners; on one machine these differ.
    const text = replaced(await fileOf('haproxy/haproxy.cfg'), [
      ['server sigfig1 sigfig-a:8081 id', `server sigfig1 127.0.0.1:${portOf(a.url)} port ${portOf(a.admin)} id`],
      ['server sigfig2 sigfig-b:8082 id', `server sigfig2 127.0.0.1:${portOf(b.url)} port ${portOf(b.admin)} id`],
      ['bind :8080', `bind 127.0.0.1:${port}`],
    ]);
    await writeFile(join(folder, 'haproxy.cfg'), text);
    return ['-db', '-f', join(folder, 'haproxy.cfg')];
  },
};

/** @throws where the program is not there, or does not take its file */
export async function startInFront(
  kind: keyof typeof kinds,
  instances: readonly [Instance, Instance],
): Promise<InFront> {
  const program = findProxy(kind);
  if (!program) throw new Error(`no ${kind}: run "node scripts/proxies.mjs", or set ${kind.toUpperCase()}_PATH`);
  const folder = await mkdtemp(join(tmpdir(), `sigfig-${kind}-`));
  await chmod(folder, 0o755); // nginx's workers are another user
  const port = await freePort();
  const child = spawn(program, await kinds[kind](folder, port, instances), { stdio: ['ignore', 'pipe', 'pipe'] });
  let log = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (chunk: Buffer) => {
      log += chunk.toString();
    });
  }
  const gone = once(child, 'exit');
  const url = `http://127.0.0.1:${port}`;
  const close = async () => {
    if (child.exitCode === null && child.signalCode === null) {
      child.kill('SIGTERM');
      await gone;
    }
    await rm(folder, { recursive: true, force: true });
  };
  try {
    await until(async () => {
      if (child.exitCode !== null) throw new Error(`${kind} ended (${child.exitCode}): ${log}`);
      return fetch(url).then(
        ({ status }) => status < 500,
        () => false,
      );
    }, `${kind} leads to sigfig`);
  } catch (error) {
    await close();
    throw error;
  }
  return { url, log: () => log, close };
}

async function freePort(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1');
  await once(probe, 'listening');
  const { port } = probe.address() as { port: number };
  probe.close();
  await once(probe, 'close');
  return port;
}
