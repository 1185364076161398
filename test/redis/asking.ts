// Commands of a test's own to a Redis server, beside whatever it tests. Knows nothing of how the server was started.
import { Redis } from 'ioredis';

/** One command. Waits for a server that is restarted, some seconds. */
export type Ask = (command: string, ...args: (string | number | Buffer)[]) => Promise<unknown>;

/** Connects when first asked, and again after a restart. */
export function asking(url: string): { readonly ask: Ask; close(): void } {
  let client: Redis | undefined;
  return {
    async ask(command, ...args) {
      if (!client) {
        client = new Redis(url, { lazyConnect: true, maxRetriesPerRequest: 200, retryStrategy: () => 50 });
        // Said by the command that fails.
        client.on('error', () => undefined);
      }
      return client.call(command, ...args);
    },
    close: () => client?.disconnect(),
  };
}
