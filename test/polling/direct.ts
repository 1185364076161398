// Plays the same requests against the legacy and through the proxy, by hand, and compares what a client can tell apart.
import type { Socket as ServerSocket } from 'socket.io';
import { expect } from 'vitest';
import { HandSession, type Stage, until } from './harness.js';

/** What of an answer a client can tell apart. */
export async function seen(answer: Promise<{ status: number; body: string }>): Promise<string> {
  try {
    const { status, body } = await answer;
    return `${status} ${body}`;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code ?? 'failed';
  }
}

/** Plays the steps against the legacy and through the proxy, and wants the same outcome. */
export async function asDirect(
  on: Stage,
  steps: (session: HandSession, port: number, side: ServerSocket) => Promise<unknown>,
) {
  const outcomes: unknown[] = [];
  for (const port of [on.legacyPort, on.port]) {
    const arrived = on.nextSocket();
    const session = await HandSession.open(port);
    outcomes.push(await steps(session, port, await arrived));
  }
  expect(outcomes[1]).toEqual(outcomes[0]);
  return outcomes[1];
}

/** The session behind a sid, for what can't be seen from outside. */
export function inside(on: Stage, session: HandSession) {
  for (const one of on.sessions.live()) if (one.sid === session.sid) return one;
  throw new Error('no such session');
}

/** Until the legacy has the request; for a POST's body that is still coming, whoever waits for the rest of it. */
export async function underWay(on: Stage, session: HandSession, method = 'GET'): Promise<void> {
  interface Engine {
    readonly clients: Readonly<
      Record<string, { readonly transport: { readonly req?: unknown; readonly dataReq?: unknown } }>
    >;
  }
  const { clients } = on.legacy.engine as unknown as Engine;
  await until(() => {
    if (method === 'POST' && session.port === on.port) return inside(on, session).posts.gathering;
    const transport = clients[session.sid]?.transport;
    return !!(method === 'GET' ? transport?.req : transport?.dataReq);
  });
}
