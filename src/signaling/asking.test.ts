import { describe, expect, it } from 'vitest';
import { manualClock } from '../base/clock.js';
import type { ConversationId, Namespace } from '../base/ids.js';
import { Unavailable } from '../base/unavailable.js';
import type { CallKey, Session } from '../call/session.js';
import type { Found } from '../store/store.js';
import { Asking, askAtMost, HURRIED_MS } from './asking.js';
import { keyOf } from './calls.js';

const keyed = (id: string): CallKey => ({ ns: '/' as Namespace, conversationId: id as ConversationId });
const nothing: Found = { session: null, claimed: false, ended: null };
/** What was asked answers once its promise is run through. */
const settled = () => new Promise((resolve) => setImmediate(resolve));

function bench() {
  const clock = manualClock();
  /** What is asked for a conversation takes so long. */
  const takes = new Map<string, number>();
  const answers = new Map<string, Found | Error>();
  const answer = ({ conversationId }: CallKey): Promise<Found> =>
    new Promise((resolve, reject) => {
      clock.after(takes.get(conversationId) ?? 0, () => {
        const found = answers.get(conversationId) ?? nothing;
        if (found instanceof Error) reject(found);
        else resolve(found);
      });
    });
  const claim = async (key: CallKey): Promise<Session | null> => (await answer(key)).session;
  let id = 0;
  const asking = new Asking({ store: { look: answer, claim }, clock, newId: () => `claim ${++id}` });
  /** How long it is held, and what it is told then. */
  async function ask(what: 'look' | 'claim', conversation: string) {
    let told: unknown = 'held';
    const started = clock.now();
    void asking.ask(what, keyed(conversation)).then(
      (shared) => (told = shared),
      (error) => (told = error),
    );
    for (let step = 0; told === 'held' && step < 1_000; step++) {
      clock.advance(10);
      await settled();
    }
    return { told, ms: clock.now() - started };
  }
  return { clock, takes, answers, asking, ask };
}

describe('an event whose conversation is asked for', () => {
  it('is held for a second at most; a claim holds all the same', async () => {
    const { takes, ask } = bench();
    takes.set('hangs', 60_000);
    expect(await ask('look', 'hangs')).toEqual({ told: undefined, ms: askAtMost });
  });

  it('is held no longer than answers take for some seconds after one did not come, and what is answered still counts', async () => {
    const { clock, takes, answers, ask } = bench();
    takes.set('hangs', 60_000);
    takes.set('there', 90);
    answers.set('there', { ...nothing, claimed: true });
    expect((await ask('claim', 'hangs')).ms).toBe(askAtMost);
    expect(await ask('claim', 'hangs')).toEqual({ told: { ...nothing, claim: 'claim 2' }, ms: 100 });
    expect(await ask('look', 'there')).toEqual({ told: answers.get('there'), ms: 90 });
    // Three times that.
    expect((await ask('look', 'hangs')).ms).toBe(270);
    clock.advance(HURRIED_MS);
    expect((await ask('look', 'hangs')).ms).toBe(askAtMost);
  });

  it('is held as long as before where all answers have become slow', async () => {
    const { takes, ask } = bench();
    takes.set('hangs', 60_000);
    takes.set('slow', 400);
    await ask('look', 'hangs');
    expect((await ask('look', 'slow')).ms).toBe(100);
    for (let n = 0; n < 4; n++) await ask('look', 'another');
    takes.set('another', 400);
    await ask('look', 'another');
    expect((await ask('look', 'slow')).told).toBeUndefined();
    await ask('look', 'hangs');
    await ask('look', 'hangs');
    await ask('look', 'hangs');
    expect((await ask('look', 'slow')).told).toEqual(nothing);
  });
});

it('remembers for some seconds that nobody has it, or that nobody answered', async () => {
  const { clock, takes, answers, asking, ask } = bench();
  answers.set('legacy', { ...nothing, claimed: true });
  answers.set('over', { ...nothing, ended: 'call' });
  answers.set('away', new Unavailable('away'));
  takes.set('hangs', 60_000);
  for (const one of ['none', 'legacy', 'over', 'away', 'hangs']) await ask('look', one);
  const said = () => ['none', 'legacy', 'over', 'away', 'hangs'].map((one) => asking.last(keyOf(keyed(one))));
  expect(said()).toEqual(['nothing', null, null, 'unanswered', 'unanswered']);
  asking.forget(keyOf(keyed('none')));
  expect(said()[0]).toBeNull();
  clock.advance(5_000);
  expect(said()).toEqual([null, null, null, null, null]);
});
