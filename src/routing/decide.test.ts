import { describe, expect, it } from 'vitest';
import { decide, type Facts } from './decide.js';

const facts: Facts = {
  opens: false,
  candidate: false,
  verified: true,
  owner: null,
  endedHere: false,
  offerMode: 'legacy',
  sole: false,
};

describe('who serves an event, in the order of the rules', () => {
  const table: [string, Partial<Facts>, string, string][] = [
    ['1: a session here', { owner: 'session' }, 'new', 'owned'],
    [
      '1: a session here, whatever the table says',
      { owner: 'session', opens: true, offerMode: 'legacy' },
      'new',
      'owned',
    ],
    ['1: an offer being accepted here', { owner: 'claimed-new', candidate: true }, 'new', 'claimed'],
    ['2: a claim of the legacy', { owner: 'claimed-legacy' }, 'legacy', 'claimed'],
    [
      '2: a second offer on a legacy call after a flip',
      { owner: 'claimed-legacy', opens: true, offerMode: 'new' },
      'legacy',
      'claimed',
    ],
    ['2: before sole', { owner: 'claimed-legacy', sole: true, offerMode: 'new' }, 'legacy', 'claimed'],
    ['3: an offer, the table says new', { opens: true, offerMode: 'new' }, 'new', 'route'],
    ['3: an offer, the table says legacy', { opens: true }, 'legacy', 'route'],
    ['3: an offer right after an end here goes by the table', { opens: true, endedHere: true }, 'legacy', 'route'],
    ['4: ended here within the minute', { endedHere: true }, 'new', 'ended-here'],
    ['4: a candidate ahead of an offer that would go to new', { candidate: true, offerMode: 'new' }, 'new', 'early'],
    ['4: a candidate ahead of an offer that would go to the legacy', { candidate: true }, 'legacy', 'default'],
    ['5: sole', { sole: true, offerMode: 'new' }, 'new', 'sole'],
    ['6: a call from before the proxy, or none', { offerMode: 'new' }, 'legacy', 'default'],
    ['an unverified sender is never served', { verified: false, owner: 'session' }, 'legacy', 'unverified'],
    ['nor its offer', { verified: false, opens: true, offerMode: 'new' }, 'legacy', 'unverified'],
    ['but with sole it gets its refusal here', { verified: false, sole: true, offerMode: 'new' }, 'new', 'sole'],
  ];
  for (const [name, change, path, because] of table) {
    it(name, () => expect(decide({ ...facts, ...change })).toEqual({ path, because }));
  }
});
