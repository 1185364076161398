import { describe, expect, it } from 'vitest';
import { defaultGuard, route } from '../../routing/route.js';
import { draftOf, requestOf, usualGuard, withMode } from './draft.js';

const legacy = route({ mode: 'legacy' });
const canary = route({ mode: 'canary', canary: { percent: 5, users: ['alice'] } });
const ask = (draft: ReturnType<typeof draftOf>, from = legacy) => requestOf(draft, from, '/', 'call-lifecycle');

describe('what an operator fills in', () => {
  it('asks for nothing but the mode where nothing else was touched', () => {
    expect(ask(draftOf(legacy))).toEqual({
      ok: true,
      request: { namespace: '/', target: 'call-lifecycle', mode: 'legacy' },
    });
  });

  it('names share and lists of a canary, as typed', () => {
    const draft = {
      ...withMode(draftOf(legacy), 'canary', legacy),
      percent: ' 2,5 ',
      users: 'alice, bob\nalice',
      excludeConversations: 'c1',
    };
    expect(ask(draft)).toEqual({
      ok: true,
      request: {
        namespace: '/',
        target: 'call-lifecycle',
        mode: 'canary',
        percent: 2.5,
        users: ['alice', 'bob'],
        excludeConversations: ['c1'],
        fallback: 'legacy',
      },
    });
  });

  it('leaves a list that was not touched to what is in force by then', () => {
    expect(ask({ ...draftOf(canary), percent: '6' }, canary)).toEqual({
      ok: true,
      request: { namespace: '/', target: 'call-lifecycle', mode: 'canary', percent: 6 },
    });
    expect(ask({ ...draftOf(canary), users: '' }, canary)).toMatchObject({ request: { users: [] } });
  });

  it('takes the usual fallback of the mode along, and gives the old one back', () => {
    expect(withMode(draftOf(legacy), 'canary', legacy).fallback).toBe('legacy');
    expect(withMode(draftOf(canary), 'new', canary).fallback).toBe('refuse');
    const back = withMode(withMode(draftOf(canary), 'new', canary), 'canary', canary);
    expect(back).toEqual(draftOf(canary));
  });

  it('asks for a guard only where it differs', () => {
    const draft = withMode(draftOf(legacy), 'new', legacy);
    expect(ask({ ...draft, maxErrors: '2,5' })).toMatchObject({
      request: { guard: { ...defaultGuard, maxErrors: 0.025 } },
    });
    expect(ask({ ...draft, guardOn: false })).toMatchObject({ request: { guard: 'off' } });
    expect(ask(draft)).not.toHaveProperty('request.guard');
    const off = route({ mode: 'new', guard: null });
    expect(ask({ ...draftOf(off), guardOn: true }, off)).toMatchObject({ request: { guard: defaultGuard } });
  });

  it('shows the limits that routes have by default', () => expect(usualGuard).toEqual(defaultGuard));

  it.each([
    [{ percent: '' }, 'Share: a number from 0 to 100'],
    [{ percent: '100.5' }, 'Share: a number from 0 to 100'],
    [{ percent: '0.125' }, 'Share: at most two decimals'],
    [{ maxErrors: 'x' }, 'Guard errors (%): a number from 0 to 100'],
    [{ windowS: '0' }, 'Guard window (seconds): a number from 1 to 3600'],
  ])('says what is wrong with %o', (wrong, problem) => {
    expect(ask({ ...draftOf(canary), ...wrong }, canary)).toEqual({ ok: false, problems: [problem] });
  });

  it('a share of two decimals stays what it is in binary', () => {
    for (const percent of ['0.07', '0.29', '33.33', '99.99']) {
      expect(ask({ ...draftOf(canary), percent }, canary)).toMatchObject({
        ok: true,
        request: { percent: Number(percent) },
      });
    }
  });
});
