// The processes that a benchmark measures, and what the kernel says that they cost. Linux only. Knows commands and URLs only.
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';

export interface Started {
  readonly pid: number;
  /** What stands behind `ready` in its ready line. */
  readonly ready: string;
  /** SIGKILL, and waits. */
  kill(): Promise<void>;
}

/** Starts a script with Node and waits for its `ready …` line; rejects with what it said on stderr. */
export async function start(script: string, args: readonly string[]): Promise<Started> {
  const child: ChildProcess = spawn(process.execPath, [script, ...args], { stdio: ['ignore', 'pipe', 'pipe'] });
  running.add(child);
  let said = '';
  child.stderr?.on('data', (chunk: Buffer) => {
    said = (said + chunk.toString()).slice(-4_000);
  });
  const exited = once(child, 'exit').then(() => running.delete(child));
  const lines = createInterface({ input: child.stdout! });
  const ready = await new Promise<string>((resolve, reject) => {
    lines.on('line', (line) => {
      if (line.startsWith('ready ')) resolve(line.slice(6));
    });
    void exited.then(() => reject(new Error(`${script} ended before it was ready:\n${said}`)));
  });
  return {
    pid: child.pid!,
    ready,
    async kill() {
      child.kill('SIGKILL');
      await exited;
    },
  };
}

/** None outlives the benchmark, however that ends. */
const running = new Set<ChildProcess>();
process.on('exit', () => {
  for (const child of running) child.kill('SIGKILL');
});
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => process.exit(130));

const ticks = Number(execFileSync('getconf', ['CLK_TCK'], { encoding: 'utf8' }));

/**
 * CPU that a process took so far, all its threads, user and system; seconds. From the scheduler's own account in nanoseconds
 * (/proc/PID/task/TID/schedstat, first field), or where the kernel keeps none in ticks (/proc/PID/stat, fields 14 and 15).
 */
export function cpuOf(pid: number): number {
  const tasks = readdirSync(`/proc/${pid}/task`).map((task) => `/proc/${pid}/task/${task}/schedstat`);
  if (tasks.every((file) => existsSync(file))) {
    return tasks.reduce((sum, file) => sum + Number(readFileSync(file, 'latin1').split(' ')[0]), 0) / 1e9;
  }
  const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
  // The command's name is in parentheses and may hold anything.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return (Number(fields[11]) + Number(fields[12])) / ticks;
}
