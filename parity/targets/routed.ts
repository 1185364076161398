// Routes of a proxy that runs already, set through its admin API: each play gets the table that it needs while those before it
// end on theirs, and at the end the routes are as they were. Knows nothing of scenarios.
import { Problem } from '../play/problem.js';

export interface RoutedProxy {
  /** `alone`: the play sets routes itself, so nobody else plays meanwhile. */
  play<T>(table: string, alone: boolean, play: (set: (table: string) => Promise<void>) => Promise<T>): Promise<T>;
  /** Routes as they were at the start. */
  close(): Promise<void>;
}

interface Waiting {
  readonly table: string;
  readonly alone: boolean;
  enter(): void;
  fail(error: unknown): void;
}

const answerMs = 15_000;
/** Changes are limited to a few in a second for each actor. */
const mostTries = 20;

/** @throws Problem where that is no admin API, or the token may not operate. */
export async function routedProxy(admin: string, token: string | undefined): Promise<RoutedProxy> {
  const { yaml: before, version } = await ask<{ yaml: string; version: number }>(admin, token, '/api/routes');
  let inForce: string | undefined;
  const set = async (table: string): Promise<void> => {
    if (table === inForce) return;
    inForce = undefined;
    await ask(admin, token, '/api/routes/apply', { yaml: table, reason: 'parity plays on this path' });
    inForce = table;
  };
  // A token that may only read fails here, and not in the middle of the run.
  await ask(admin, token, '/api/routes/apply', { yaml: before, reason: 'parity looks at it', dryRun: true }, 'operate');

  let playing = 0;
  let alone = false;
  let switching = false;
  let waiting: Waiting[] = [];

  /** Lets in whoever can play now: on the table in force, or, once nobody plays any more, the one that waits longest. */
  async function admit(): Promise<void> {
    for (;;) {
      const next = waiting.find((w) => playing === 0 || (!alone && !w.alone && w.table === inForce));
      if (switching || !next) return;
      waiting = waiting.filter((w) => w !== next);
      switching = true;
      try {
        await set(next.table);
        playing++;
        alone = next.alone;
        next.enter();
      } catch (error) {
        next.fail(error);
      } finally {
        switching = false;
      }
    }
  }

  return {
    async play(table, isAlone, play) {
      await new Promise<void>((enter, fail) => {
        waiting.push({ table, alone: isAlone, enter, fail });
        void admit();
      });
      try {
        return await play(set);
      } finally {
        playing--;
        if (isAlone) alone = false;
        void admit();
      }
    },
    async close() {
      await ask(admin, token, '/api/routes/apply', { yaml: before, reason: `parity is over: as version ${version}` });
    },
  };
}

export async function ask<T>(
  admin: string,
  token: string | undefined,
  path: string,
  body?: object,
  needs = 'read',
): Promise<T> {
  for (let tries = 1; ; tries++) {
    let response: Response;
    let text: string;
    try {
      response = await fetch(`${admin}${path}`, {
        ...(body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) }),
        headers: {
          'content-type': 'application/json',
          ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
        },
        signal: AbortSignal.timeout(answerMs),
      });
      text = await response.text();
    } catch (error) {
      const { cause, name } = error as { cause?: { code?: string }; name: string };
      throw new Problem(`--admin ${admin} can't be reached (${cause?.code ?? name}); start it, or mend the URL`);
    }
    if (response.ok) return parsed<T>(text, admin);
    if (response.status === 429 && tries < mostTries) {
      await new Promise((resolve) => setTimeout(resolve, 1_000 * Number(response.headers.get('retry-after') ?? 1)));
      continue;
    }
    if (response.status === 401 || response.status === 403) {
      throw new Problem(`--admin ${admin} wants a token that may ${needs}; give --admin-token-file`);
    }
    const { problems } = parsed<{ problems?: readonly string[] }>(text, admin);
    throw new Problem(`--admin ${admin} answered ${response.status}: ${problems?.join('; ') ?? 'no reason'}`);
  }
}

function parsed<T>(text: string, admin: string): T {
  try {
    return JSON.parse(text) as T;
  } catch {
    throw new Problem(`--admin ${admin} is no admin API of sigfig's; mend the URL`);
  }
}
