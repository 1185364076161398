// The first thing a run does: one user signs in and sends the barrier's events, so that a wrong secret, a dead target or an
// event that nobody acknowledges is one clear line. Knows nothing of scenarios.
import { Connection } from '../play/connection.js';
import { Problem } from '../play/problem.js';
import type { Identity } from './identity.js';

const patienceMs = 10_000;

/** @throws Problem with what is to be mended. */
export async function greetBackend(identity: Identity, url: string, barrierEvent: string): Promise<void> {
  const { id, token } = await identity.signIn('parity-own-greeter', 'valid');
  let refusal = '';
  const connection = new Connection(
    {
      url,
      namespace: '/',
      transport: 'websocket',
      token,
      retries: undefined,
      ackTimeout: undefined,
      device: id,
      patienceMs,
    },
    (entry) => {
      if (entry.kind === 'event' && entry.name === 'connect_error') {
        refusal = String((entry.args[0] as { message?: unknown }).message);
      }
    },
  );
  try {
    if (!(await connection.connect())) {
      throw new Problem(`${url} refuses our tokens (${refusal}); is it the secret of this backend?`);
    }
    const answered = connection.ask(barrierEvent, []);
    const late = new Promise<'late'>((resolve) => setTimeout(() => resolve('late'), patienceMs).unref());
    if ((await Promise.race([answered, late])) === 'late') {
      throw new Problem(`${url} acknowledges no ${barrierEvent}; name an event that it does with --barrier-event`);
    }
  } finally {
    await connection.close();
  }
}
