// A Redis in Docker, by testcontainers, for machines that have an engine. Knows nothing of sigfig.
import { GenericContainer, getContainerRuntimeClient, type StartedTestContainer, Wait } from 'testcontainers';
import { asking } from './asking.js';
import { freePort } from './port.js';
import type { RedisServer } from './server.js';

let answer: Promise<boolean> | undefined;

/** Whether a Docker engine answers, asked once; within 5 s. */
export function dockerAnswers(): Promise<boolean> {
  answer ??= Promise.race([
    getContainerRuntimeClient().then(
      () => true,
      () => false,
    ),
    new Promise<boolean>((resolve) => setTimeout(resolve, 5_000, false).unref()),
  ]);
  return answer;
}

/** The same as a private redis-server, in a container of the image redis:7 that is removed with this process. */
export async function startContainer(args: readonly string[] = []): Promise<RedisServer> {
  const runtime = await getContainerRuntimeClient();
  // Docker gives another port at each start where none is asked for.
  const port = await freePort();
  const started: StartedTestContainer = await new GenericContainer('redis:7')
    .withExposedPorts({ container: 6379, host: port })
    .withCommand(['redis-server', '--appendonly', 'yes', '--appendfsync', 'no', '--save', '', ...args])
    .withWaitStrategy(Wait.forLogMessage(/Ready to accept connections/))
    .start();
  const container = runtime.container.getById(started.getId());
  const url = `redis://${started.getHost()}:${port}`;
  const client = asking(url);
  const running = async (): Promise<boolean> => (await container.inspect()).State.Running;

  async function end(signal: 'SIGKILL' | 'SIGTERM'): Promise<void> {
    const { State } = await container.inspect();
    if (State.Paused) await container.unpause();
    if (!State.Running) return;
    const gone = container.wait();
    await container.kill({ signal });
    await gone;
  }

  return {
    url,
    port,
    pid: undefined,
    kill: () => end('SIGKILL'),
    stop: () => end('SIGTERM'),
    async restart({ keepData }) {
      if (!keepData && (await running())) await client.ask('FLUSHALL');
      await end('SIGKILL');
      await container.start();
      if (!keepData) await client.ask('FLUSHALL');
      await client.ask('PING');
    },
    freeze: async () => void (await container.pause()),
    thaw: async () => void (await container.unpause()),
    ask: client.ask,
    async close() {
      client.close();
      await started.stop();
    },
  };
}
