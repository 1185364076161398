// Faults for tests of the guard: a store that can't be written, or is slow, when told to. The test mocks the memory driver
// with it.
import type { SessionStore } from '../../src/store/store.js';

/** `failing`: all of them, or those of one conversation. */
export const faults: { failing: boolean | string; slowMs: number } = { failing: false, slowMs: 0 };

const struck = async <T>(conversationId: string, ask: () => Promise<T>): Promise<T> => {
  if (faults.failing === true || faults.failing === conversationId) throw new Error('the store can not be written');
  if (faults.slowMs > 0) await new Promise((resolve) => setTimeout(resolve, faults.slowMs));
  return ask();
};

/** Saves of sessions are struck; reading still works. */
export function faulty(store: SessionStore): SessionStore {
  return {
    ...store,
    create: (session) => struck(session.conversationId, () => store.create(session)),
    replace: (before, after) => struck(before.conversationId, () => store.replace(before, after)),
    delete: (before) => struck(before.conversationId, () => store.delete(before)),
  };
}
