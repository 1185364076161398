import { describe, expect, it } from 'vitest';
import { decide, type Facts } from './decide.js';

const offer = (path: 'legacy' | 'new') => () => ({ path, because: 'route' }) as const;
const facts: Facts = {
  opens: false,
  candidate: false,
  verified: true,
  owner: null,
  endedHere: false,
  offer: offer('legacy'),
  sole: false,
  peeled: false,
};

describe('who serves an event, in the order of the rules', () => {
  const table: [string, Partial<Facts>, string, string][] = [
    ['1: a session here', { owner: 'session' }, 'new', 'owned'],
    [
      '1: a session here, whatever the table says',
      { owner: 'session', opens: true, offer: offer('legacy') },
      'new',
      'owned',
    ],
    ['1: an offer being accepted here', { owner: 'claimed-new', candidate: true }, 'new', 'claimed'],
    ['2: a claim of the legacy', { owner: 'claimed-legacy' }, 'legacy', 'claimed'],
    [
      '2: a second offer on a legacy call after a flip',
      { owner: 'claimed-legacy', opens: true, offer: offer('new') },
      'legacy',
      'claimed',
    ],
    ['2: before sole', { owner: 'claimed-legacy', sole: true, offer: offer('new') }, 'legacy', 'claimed'],
    ['3: an offer, the table says new', { opens: true, offer: offer('new') }, 'new', 'route'],
    ['3: an offer, the table says legacy', { opens: true }, 'legacy', 'route'],
    ['3: an offer right after an end here goes by the table', { opens: true, endedHere: true }, 'legacy', 'route'],
    ['4: ended here within the minute', { endedHere: true }, 'new', 'ended-here'],
    ['4: a candidate ahead of an offer that would go to new', { candidate: true, offer: offer('new') }, 'new', 'early'],
    ['4: a candidate ahead of an offer that would go to the legacy', { candidate: true }, 'legacy', 'default'],
    ['5: sole', { sole: true, offer: offer('new') }, 'new', 'sole'],
    ['6: a call from before the proxy, or none', { offer: offer('new') }, 'legacy', 'default'],
    ['an unverified sender is never served', { verified: false, owner: 'session' }, 'legacy', 'unverified'],
    ['nor its offer', { verified: false, opens: true, offer: offer('new') }, 'legacy', 'unverified'],
    ['but with sole it gets its refusal here', { verified: false, sole: true, offer: offer('new') }, 'new', 'sole'],
  ];
  for (const [name, change, path, because] of table) {
    it(name, () => expect(decide({ ...facts, ...change })).toEqual({ path, because }));
  }
});
