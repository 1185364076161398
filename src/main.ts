// The life of the process: compose, say where it listens, drain on a signal, and never carry on after a broken
// assumption that nobody caught. Knows nothing of the parts.
import { CannotStart } from './base/cannot-start.js';
import type { Config } from './config.js';
import { createLogger, type Logger } from './telemetry/log.js';

/** What `compose` answers once everything listens. URLs hold the real ports, and no trailing slash. */
export interface Running {
  /** `https` where TLS is served. */
  readonly proxyUrl: string;
  readonly adminUrl: string;
  /** With its path. */
  readonly metricsUrl: string;
  /** Not ready, then connections are closed, then listeners; resolves when nothing is left. Bounded in time. */
  drain(): Promise<void>;
  /** Lets go of everything at once, for a process that exits right after. */
  kill(): void;
}

/** What `run` needs of the world; a test gives its own. */
export interface World {
  readonly stdout: NodeJS.WritableStream;
  readonly stderr: NodeJS.WritableStream & { readonly isTTY?: boolean };
  exit(code: number): void;
  /** Where signals and uncaught errors come from: the process. */
  readonly process: Pick<NodeJS.EventEmitter, 'on' | 'off'>;
  readonly compose: (config: Config, logger: Logger) => Promise<Running>;
}

/**
 * Runs until a signal; a second one stops it at once. Exit codes: 0 after a signal; 1 a broken assumption; 2 it could not
 * start, with one line on stderr for each thing to mend. Prints one line on stdout: `ready proxy=URL admin=URL metrics=URL`.
 */
export async function run(config: Config, given: Partial<World> = {}): Promise<void> {
  const world: World = {
    stdout: process.stdout,
    stderr: process.stderr,
    exit: (code) => process.exit(code),
    process,
    compose: async (...args) => (await import('./compose.js')).compose(...args),
    ...given,
  };
  const logger = createLogger({ level: config.logLevel, stream: world.stderr });
  let running: Running | undefined;
  let ending = false;
  const end = (code: number, { drained = false } = {}) => {
    if (ending) return;
    ending = true;
    try {
      if (!drained) running?.kill();
    } finally {
      world.exit(code);
    }
  };
  const broken = (origin: string) => (error: unknown) => {
    logger.fatal({ err: error, origin }, 'internal error, exiting');
    end(1);
  };
  world.process.on('uncaughtException', broken('uncaughtException'));
  world.process.on('unhandledRejection', broken('unhandledRejection'));
  // Whoever read our output went away (EPIPE), or the disk is full: that can't be told to anybody, and calls go on.
  world.stdout.on('error', () => undefined);
  world.stderr.on('error', () => undefined);

  let signals = 0;
  const onSignal = (signal: string) => {
    signals++;
    // Before it is up there is nothing to drain.
    if (signals > 1 || !running) {
      logger.warn({ signal }, 'stopped at once');
      end(0);
      return;
    }
    logger.info({ signal }, 'draining; a second signal stops at once');
    running.drain().then(() => {
      logger.info('drained');
      end(0, { drained: true });
    }, broken('drain'));
  };
  world.process.on('SIGTERM', onSignal);
  world.process.on('SIGINT', onSignal);

  try {
    running = await world.compose(config, logger);
  } catch (error) {
    const problems = startProblems(error);
    if (problems) {
      for (const problem of problems) world.stderr.write(`sigfig: ${problem}\n`);
      end(2);
    } else {
      broken('start')(error);
    }
    return;
  }
  if (ending) {
    running.kill();
    return;
  }
  const { proxyUrl, adminUrl, metricsUrl } = running;
  world.stdout.write(`ready proxy=${proxyUrl} admin=${adminUrl} metrics=${metricsUrl}\n`);
}

/** Lines for what an operator can mend; undefined for what is our own fault. */
export function startProblems(error: unknown): readonly string[] | undefined {
  if (error instanceof CannotStart) return error.problems;
  if (!(error instanceof Error)) return undefined;
  const { code, syscall, address, port } = error as NodeJS.ErrnoException & { address?: string; port?: number };
  const where = address === undefined ? '' : ` on ${address.includes(':') ? `[${address}]` : address}:${port}`;
  if (syscall === 'getaddrinfo') {
    const { hostname } = error as { hostname?: string };
    return [`can't listen on the host ${hostname}: it is unknown (${code}); give an address of this machine`];
  }
  if (syscall !== 'listen' && syscall !== 'bind') return undefined;
  switch (code) {
    case 'EADDRINUSE':
      return [`can't listen${where}: the port is taken; stop what listens there, or give another port`];
    case 'EACCES':
      return [`can't listen${where}: not allowed; give a port over 1023`];
    case 'EADDRNOTAVAIL':
      return [`can't listen${where}: this machine has no such address; give one of its own, or 0.0.0.0`];
    default:
      return [`can't listen${where}: ${code}; give another address`];
  }
}
