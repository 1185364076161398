import { EventEmitter } from 'node:events';
import { createServer } from 'node:net';
import { Writable } from 'node:stream';
import { describe, expect, test } from 'vitest';
import { CannotStart } from './base/cannot-start.js';
import { loadConfig } from './config.js';
import { type Running, run, startProblems } from './main.js';

const loaded = loadConfig(
  { legacy: 'http://127.0.0.1:3000', jwks: 'https://issuer.example/keys', 'log-level': 'info' },
  {},
);
if (!loaded.ok) throw new Error(loaded.problems.join());
const { config } = loaded;

function world(compose: () => Promise<Running>) {
  const written = { out: '', err: '' };
  const sink = (where: 'out' | 'err') =>
    new Writable({
      write(chunk, _encoding, done) {
        written[where] += String(chunk);
        done();
      },
    });
  const codes: number[] = [];
  let exited: (code: number) => void = () => undefined;
  const exit = new Promise<number>((resolve) => {
    exited = resolve;
  });
  const process = new EventEmitter();
  return {
    written,
    codes,
    exit,
    process,
    given: {
      stdout: sink('out'),
      stderr: sink('err'),
      exit(code: number) {
        codes.push(code);
        exited(code);
      },
      process,
      compose,
    },
  };
}

function running() {
  const calls: string[] = [];
  let drained: () => void = () => undefined;
  const parts: Running = {
    proxyUrl: 'http://127.0.0.1:1',
    adminUrl: 'http://127.0.0.1:2',
    metricsUrl: 'http://127.0.0.1:3/metrics',
    drain() {
      calls.push('drain');
      return new Promise((resolve) => {
        drained = resolve;
      });
    },
    kill: () => void calls.push('kill'),
  };
  return { parts, calls, drained: () => drained() };
}

describe('a process that starts', () => {
  test('says where it listens in one line, drains on a signal and exits with 0', async () => {
    const { parts, calls, drained } = running();
    const { given, written, codes, exit, process } = world(async () => parts);
    await run(config, given);
    expect(written.out).toBe(
      'ready proxy=http://127.0.0.1:1 admin=http://127.0.0.1:2 metrics=http://127.0.0.1:3/metrics\n',
    );
    process.emit('SIGTERM', 'SIGTERM');
    expect(calls).toEqual(['drain']);
    expect(codes).toEqual([]);
    drained();
    expect(await exit).toBe(0);
    expect(calls).toEqual(['drain']);
  });

  test('a second signal stops it at once', async () => {
    const { parts, calls } = running();
    const { given, codes, process } = world(async () => parts);
    await run(config, given);
    process.emit('SIGINT', 'SIGINT');
    process.emit('SIGINT', 'SIGINT');
    expect(calls).toEqual(['drain', 'kill']);
    expect(codes).toEqual([0]);
  });

  test('a signal before it is up ends it, and what comes up later is let go', async () => {
    const { parts, calls } = running();
    let up: (parts: Running) => void = () => undefined;
    const { given, codes, process, written } = world(
      () =>
        new Promise((resolve) => {
          up = resolve;
        }),
    );
    const done = run(config, given);
    process.emit('SIGTERM', 'SIGTERM');
    expect(codes).toEqual([0]);
    up(parts);
    await done;
    expect(calls).toEqual(['kill']);
    expect(written.out).toBe('');
  });

  test.each(['uncaughtException', 'unhandledRejection'])('never carries on after an %s', async (kind) => {
    const { parts, calls } = running();
    const { given, codes, process, written } = world(async () => parts);
    await run(config, given);
    process.emit(kind, new Error('a broken assumption'));
    expect(codes).toEqual([1]);
    expect(calls).toEqual(['kill']);
    expect(written.err).toContain('"level":"fatal"');
    expect(written.err).toContain('a broken assumption');
  });

  test('a drain that fails is a broken assumption', async () => {
    const { parts } = running();
    const { given, exit, process } = world(async () => ({ ...parts, drain: () => Promise.reject(new Error('stuck')) }));
    await run(config, given);
    process.emit('SIGTERM', 'SIGTERM');
    expect(await exit).toBe(1);
  });

  test('a reader of its output that goes away does not end it', async () => {
    const { parts } = running();
    const { given, codes } = world(async () => parts);
    await run(config, given);
    for (const stream of [given.stdout, given.stderr]) {
      stream.emit('error', Object.assign(new Error('write EPIPE'), { code: 'EPIPE', syscall: 'write' }));
    }
    expect(codes).toEqual([]);
  });
});

describe('a process that can not start', () => {
  test('says what to mend, a line each, and exits with 2', async () => {
    const { given, codes, written } = world(() =>
      Promise.reject(new CannotStart(['r.yaml:1: a; b', 'r.yaml:2: c; d'])),
    );
    await run(config, given);
    expect(codes).toEqual([2]);
    expect(written).toEqual({ out: '', err: 'sigfig: r.yaml:1: a; b\nsigfig: r.yaml:2: c; d\n' });
  });

  test('a taken port', async () => {
    const taken = createServer();
    await new Promise<void>((resolve) => {
      taken.listen(0, '127.0.0.1', resolve);
    });
    const { port } = taken.address() as { port: number };
    const error = await new Promise<unknown>((resolve) => {
      createServer().once('error', resolve).listen(port, '127.0.0.1');
    });
    taken.close();
    expect(startProblems(error)).toEqual([
      `can't listen on 127.0.0.1:${port}: the port is taken; stop what listens there, or give another port`,
    ]);
  });

  test('an address or a host that this machine has not', () => {
    const listen = { syscall: 'listen', address: '::9', port: 1 };
    expect(startProblems(Object.assign(new Error(), { ...listen, code: 'EADDRNOTAVAIL' }))?.[0]).toMatch(
      /^can't listen on \[::9\]:1: this machine has no such address; /,
    );
    expect(startProblems(Object.assign(new Error(), { ...listen, code: 'EACCES' }))?.[0]).toContain('not allowed; ');
    const unknown = { syscall: 'getaddrinfo', code: 'ENOTFOUND', hostname: 'nowhere' };
    expect(startProblems(Object.assign(new Error(), unknown))?.[0]).toContain('the host nowhere: it is unknown');
  });

  test('what is our own fault is an internal error with 1', async () => {
    const { given, codes, written } = world(() => Promise.reject(new TypeError('x is not a function')));
    await run(config, given);
    expect(codes).toEqual([1]);
    expect(written.err).toContain('x is not a function');
  });
});
