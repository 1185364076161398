// The call contract, row by row: who may do what in which state.
import { describe, expect, it } from 'vitest';
import { conversationId, everybody, fresh, line, OK, PAYLOADS, reach, state, told, useCast } from './calls.cast.js';

useCast();

const TEXT: Record<string, string> = {
  none: 'No such call',
  outsider: 'Not a participant',
  notAllowed: 'Not allowed to answer',
  noOffer: 'No offer to answer',
  progress: 'Call already in progress',
  recovering: 'Call is recovering, rejoin instead',
  glare: 'Renegotiation in progress, retry later',
  noReneg: 'No renegotiation to answer',
  noRejoin: 'No rejoin to answer',
  nothing: 'Nothing to rejoin',
  inactive: 'Not the active device',
};
for (const name of ['OFFERING', 'RENEGOTIATING', 'AWAITING_REJOIN']) {
  TEXT[`from:${name}`] = `Cannot renegotiate from state ${name}`;
}

/**
 * Columns: alice's seat, her other device, bob's seat (in OFFERING and AWAITING_REJOIN just a device of his), his other device, an outsider.
 * `>X`: done, and the call is in X afterwards; anything else names a refusal, which changes nothing.
 */
const MATRIX: Record<string, Record<string, string>> = {
  IDLE: {
    'call-offer': '>OFFERING >OFFERING >OFFERING >OFFERING outsider',
    'call-answer': 'none none none none none',
    'ice-candidate': '>none >none >none >none >none',
    'call-renegotiate-offer': 'none none none none none',
    'call-renegotiate-answer': 'none none none none none',
    'call-rejoin-offer': 'none none none none none',
    'call-rejoin-answer': 'none none none none none',
    'call-end': 'none none none none none',
  },
  OFFERING: {
    'call-offer': 'progress progress progress progress outsider',
    'call-answer': 'notAllowed notAllowed >CONNECTED >CONNECTED notAllowed',
    'ice-candidate': '>OFFERING >OFFERING >OFFERING >OFFERING outsider',
    'call-renegotiate-offer': 'from:OFFERING from:OFFERING from:OFFERING from:OFFERING outsider',
    'call-renegotiate-answer': 'noReneg noReneg noReneg noReneg outsider',
    'call-rejoin-offer': 'nothing nothing nothing nothing outsider',
    'call-rejoin-answer': 'noRejoin noRejoin noRejoin noRejoin outsider',
    'call-end': '>none >none >none >none outsider',
  },
  CONNECTED: {
    'call-offer': 'progress progress progress progress outsider',
    'call-answer': 'noOffer noOffer noOffer noOffer outsider',
    'ice-candidate': '>CONNECTED inactive >CONNECTED inactive outsider',
    'call-renegotiate-offer': '>RENEGOTIATING inactive >RENEGOTIATING inactive outsider',
    'call-renegotiate-answer': 'noReneg noReneg noReneg noReneg outsider',
    'call-rejoin-offer': 'nothing >OFFERING nothing >OFFERING outsider',
    'call-rejoin-answer': 'noRejoin noRejoin noRejoin noRejoin outsider',
    'call-end': '>none >none >none >none outsider',
  },
  RENEGOTIATING: {
    'call-offer': 'progress progress progress progress outsider',
    'call-answer': 'noOffer noOffer noOffer noOffer outsider',
    'ice-candidate': '>RENEGOTIATING inactive >RENEGOTIATING inactive outsider',
    'call-renegotiate-offer': 'from:RENEGOTIATING inactive glare inactive outsider',
    'call-renegotiate-answer': 'noReneg inactive >CONNECTED inactive outsider',
    'call-rejoin-offer': 'nothing >OFFERING nothing >OFFERING outsider',
    'call-rejoin-answer': 'noRejoin noRejoin noRejoin noRejoin outsider',
    'call-end': '>none >none >none >none outsider',
  },
  AWAITING_REJOIN: {
    'call-offer': 'recovering recovering recovering recovering outsider',
    'call-answer': 'noOffer noOffer noOffer noOffer outsider',
    'ice-candidate': '>AWAITING_REJOIN >AWAITING_REJOIN >AWAITING_REJOIN >AWAITING_REJOIN outsider',
    'call-renegotiate-offer':
      'from:AWAITING_REJOIN from:AWAITING_REJOIN from:AWAITING_REJOIN from:AWAITING_REJOIN outsider',
    'call-renegotiate-answer': 'noReneg noReneg noReneg noReneg outsider',
    'call-rejoin-offer': 'nothing nothing >OFFERING >OFFERING nothing',
    'call-rejoin-answer': 'noRejoin noRejoin noRejoin noRejoin outsider',
    'call-end': '>none >none >none >none outsider',
  },
  REJOINING: {
    'call-offer': 'progress progress progress progress outsider',
    'call-answer': 'noOffer noOffer noOffer noOffer outsider',
    'ice-candidate': '>OFFERING inactive >OFFERING inactive outsider',
    'call-renegotiate-offer': 'from:OFFERING from:OFFERING from:OFFERING from:OFFERING outsider',
    'call-renegotiate-answer': 'noReneg noReneg noReneg noReneg outsider',
    'call-rejoin-offer': 'nothing >OFFERING nothing >OFFERING outsider',
    'call-rejoin-answer': '>CONNECTED inactive noRejoin noRejoin outsider',
    'call-end': '>none >none >none >none outsider',
  },
};

describe.each(Object.keys(MATRIX))('in %s', (situation) => {
  it.each(Object.entries(MATRIX[situation]!))('%s', async (event, cells) => {
    const listed = event === 'call-answer' || event === 'call-rejoin-answer';
    for (const [i, cell] of cells.split(' ').entries()) {
      const [name, device] = Object.entries(everybody)[i]!;
      const where = `${event} by ${name}`;
      await fresh();
      await reach(situation);
      const before = state();
      if (cell.startsWith('>')) {
        expect(await device.ask(event, PAYLOADS[event]!()), where).toEqual(listed ? [[]] : OK);
        expect(state(), where).toBe(cell.slice(1));
        await told();
        continue;
      }
      const message = TEXT[cell]!;
      const refusal = line('error', { event, conversationId, message });
      const answer = await device.ask(event, PAYLOADS[event]!());
      expect(device.take(), `${where}: the error comes before the acknowledgement`).toHaveLength(1);
      expect(JSON.stringify(answer), where).toBe(JSON.stringify(listed ? [[]] : [{ ok: false, error: message }]));
      await device.tell(event, PAYLOADS[event]!());
      expect(await told(), `${where}: nobody else hears of it`).toEqual({ [name]: [refusal] });
      expect(state(), where).toBe(before);
    }
  });
});
