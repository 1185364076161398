// The splice from the browser to the legacy.
import { describe, expect, test } from 'vitest';
import { closeFrame } from './frame.js';
import type { Packet } from './packet.js';
import { binaryOffer, browser, chat, cuts, down, KEY, offer, ours, oursUp, up, upBinary } from './splice.fixture.js';
import { BrowserSplice } from './splice.js';
import { interest, readWire, wireFrame } from './wire.fixture.js';

describe('from the browser', () => {
  test('a run of frames that pass is one slice of the chunk', () => {
    const passed: Buffer[] = [];
    const it = new BrowserSplice(
      { pass: (b) => passed.push(b), packet: () => 'pass', foreign: () => expect.unreachable() },
      interest,
      { maxPayload: 1000, counters: { forwardedUp: 0 } },
    );
    const chunk = Buffer.concat([
      up('40'),
      up(chat),
      up('430[]'),
      up('42["pass-me"]'),
      wireFrame(9, true, Buffer.from('p'), KEY),
    ]);
    it.write(chunk);
    expect(passed.length).toBe(1);
    expect(passed[0]).toBe(chunk);
  });

  test('a named event is cut out, wherever the stream is cut', () => {
    const bytes = Buffer.concat([up(chat), up(offer), up(chat)]);
    for (const [a, b] of cuts(bytes)) {
      const { it, served, passed, counters } = browser();
      it.write(a);
      it.write(b);
      expect(passed().equals(Buffer.concat([up(chat), up(chat)]))).toBe(true);
      expect(served.map((p) => p.text)).toEqual([offer]);
      expect(counters.forwardedUp).toBe(2);
    }
  });

  test('an event with attachments is cut out, wherever the stream is cut, control frames pass on', () => {
    const ping = wireFrame(9, true, Buffer.from('p'), KEY);
    const bytes = Buffer.concat([
      up(binaryOffer.slice(0, 9), false),
      ping,
      up(binaryOffer.slice(9), true, 0),
      upBinary('o', false),
      ping,
      up('ne', true, 0),
      up('3'),
      upBinary(''),
      up(chat),
    ]);
    for (const [a, b] of cuts(bytes)) {
      const { it, served, passed } = browser();
      it.write(a);
      it.write(b);
      expect(passed().equals(Buffer.concat([ping, ping, up('3'), up(chat)]))).toBe(true);
      expect(served.map((p) => [p.text, p.id, ...p.attachments.map(String)])).toEqual([[binaryOffer, 7, 'one', '']]);
    }
  });

  test('control frames do not wait for a gathered message', () => {
    const { it, out } = browser();
    it.write(up('42["call-of', false));
    expect(out).toEqual([]);
    it.write(wireFrame(9, true, Buffer.from('p'), KEY));
    expect(Buffer.concat(out)).toEqual(wireFrame(9, true, Buffer.from('p'), KEY));
  });

  test('what nobody wants does not wait for its end', () => {
    const { it, passed } = browser();
    const start = up('42["chat-message","', false);
    it.write(start);
    expect(passed().equals(start)).toBe(true);
    const header = up(chat).subarray(0, 10);
    it.write(up('"]', true, 0));
    it.write(header);
    expect(passed().length).toBe(start.length + up('"]', true, 0).length); // `42["` may yet become an offer
    it.write(up(chat).subarray(10, 12));
    expect(passed().length).toBe(start.length + up('"]', true, 0).length);
  });

  test('an event passes raw where its owner says so', () => {
    const { it, shown, passed } = browser();
    const bytes = Buffer.concat([
      up('451-["pass-me",{"_placeholder":true,"num":0}]', false),
      up('', true, 0),
      upBinary('one'),
    ]);
    it.write(bytes);
    expect(shown.length).toBe(1);
    expect(passed().equals(bytes)).toBe(true);
    expect(it.atBoundary).toBe(true);
  });

  test('base64 attachments (b64=1)', () => {
    const { it, served } = browser();
    it.write(Buffer.concat([up(binaryOffer), up(`b${Buffer.from('one').toString('base64')}`), up('b')]));
    expect(served[0]?.attachments.map(String)).toEqual(['one', '']);
  });

  describe('limits', () => {
    test('an event over maxPayload goes to the legacy before it is gathered', () => {
      const { it, passed, shown } = browser({ maxPayload: 200 });
      const bytes = up(`42["call-offer","${'x'.repeat(300)}"]`);
      it.write(bytes.subarray(0, 120));
      expect(passed().length).toBe(120);
      it.write(bytes.subarray(120));
      expect(passed().equals(bytes)).toBe(true);
      expect(shown).toEqual([]);
    });

    test('so does one that grows over it by fragments, or by attachments', () => {
      for (const parts of [
        [up('42["call-offer","', false), up('x'.repeat(150), false, 0), up('x'.repeat(150), true, 0)],
        [up(binaryOffer), upBinary('x'.repeat(150)), upBinary('x'.repeat(150))],
      ]) {
        const { it, passed, shown } = browser({ maxPayload: 200 });
        for (const part of parts) it.write(part);
        expect(passed().equals(Buffer.concat(parts))).toBe(true);
        expect(shown).toEqual([]);
        expect(it.atBoundary).toBe(true);
      }
    });

    test('threat: an announced length allocates nothing, empty fragments without end are not kept', () => {
      const { it, passed } = browser({ maxPayload: Number.MAX_SAFE_INTEGER });
      it.write(
        Buffer.concat([Buffer.from([0x81, 0xff, 0, 0x10, 0, 0, 0, 0, 0, 0]), KEY, up('42["call-offer",').subarray(6)]),
      );
      expect(passed().length).toBe(0);
      const flood = browser();
      flood.it.write(up('42["call-offer",', false));
      for (let i = 0; i < 20; i++) flood.it.write(Buffer.concat(Array(1000).fill(up('', false, 0)) as Buffer[]));
      expect(flood.passed().length).toBeGreaterThan(110_000);
    });

    test('more than ten attachments: the legacy decides', () => {
      const { it, passed, shown } = browser();
      const bytes = Buffer.concat([up('4511-["call-offer",1]'), upBinary('one')]);
      it.write(bytes);
      expect(passed().equals(bytes)).toBe(true);
      expect(shown).toEqual([]);
      expect(it.attachmentsDue).toBe(10);
    });

    test('maxPayload can be set once it is known', () => {
      const { it, served } = browser({ maxPayload: 10 });
      it.write(up(offer));
      it.maxPayload = 1000;
      it.write(up(offer));
      expect(served.length).toBe(1);
    });
  });

  test('text in an attachment’s place: the header goes on first, and the text too, whatever it is', () => {
    const { it, passed, shown } = browser();
    it.write(Buffer.concat([up(binaryOffer), upBinary('one')]));
    expect(passed().length).toBe(0);
    it.write(up(offer));
    expect(passed().equals(Buffer.concat([up(binaryOffer), upBinary('one'), up(offer)]))).toBe(true);
    expect(shown).toEqual([]);
  });

  test.each(['42["call-offer",\xff]', '42["call-offer","\xc3('])('invalid UTF-8 goes to the legacy: %j', (text) => {
    const { it, passed, shown } = browser();
    const bytes = wireFrame(1, true, Buffer.from(text, 'latin1'), KEY);
    const parts = [
      bytes,
      wireFrame(1, false, Buffer.from(text.slice(0, 5), 'latin1'), KEY),
      wireFrame(0, true, Buffer.from(text.slice(5), 'latin1'), KEY),
    ];
    it.write(Buffer.concat(parts));
    expect(passed().equals(Buffer.concat(parts))).toBe(true);
    expect(shown).toEqual([]);
  });

  test.each([
    ['masking', down(chat)],
    ['reserved-bits', Buffer.from('c180000000000', 'hex')],
    ['reserved-opcode', Buffer.from('8380', 'hex')],
    ['control-frame', Buffer.from('0980', 'hex')],
    ['continuation', up('x', true, 0)],
    ['length', Buffer.from('81ffffffffffffffffff00000000', 'hex')],
  ])('no frame that may stand there (%s): all flows on unseen', (why, bytes) => {
    const { it, log, passed, shown } = browser();
    const held = up(binaryOffer);
    const rest = up(offer);
    it.write(Buffer.concat([held, bytes, rest]));
    it.write(rest);
    expect(log).toEqual([why]);
    expect(passed().equals(Buffer.concat([held, bytes, rest, rest]))).toBe(true);
    expect(shown).toEqual([]);
    expect(it.inject(ours)).toBe(false);
  });

  test('a text in the middle of a message is a violation too', () => {
    const { it, log } = browser();
    it.write(Buffer.concat([up(chat, false), up(chat)]));
    expect(log).toEqual(['continuation']);
  });

  describe('another parser', () => {
    test.each([
      ['binary', upBinary('\x81\xa4type')],
      ['base64', up('bgaQ=')],
      ['JSON', up('4{"type":0}')],
      ['a seventh type', up('47')],
      ['fragmented', Buffer.concat([up('', false), up('4', false, 0), up('x', true, 0)])],
    ])('%s', (_, bytes) => {
      const { it, log, passed, shown } = browser({ known: false });
      const all = Buffer.concat([up('3'), bytes, up(offer), upBinary('x')]);
      it.write(all);
      it.write(up(offer));
      expect(log).toEqual(['engine 3', 'foreign']);
      expect(passed().equals(Buffer.concat([all, up(offer)]))).toBe(true);
      expect(shown).toEqual([]);
    });

    test('is not suspected once the session has spoken Socket.IO’s own', () => {
      const { it, log, served } = browser({ known: false });
      it.write(Buffer.concat([up('40'), upBinary('stray'), up('4x'), up(offer)]));
      expect(log).toEqual([]);
      expect(served.length).toBe(1);
    });
  });

  describe('putting in', () => {
    test('at once between packets', () => {
      const { it, passed } = browser();
      expect(it.inject(ours)).toBe(true);
      expect(passed().equals(oursUp)).toBe(true);
    });

    test('not inside a message, nor between a header and its attachments, nor in a control frame', () => {
      const parts = [
        up('452-["chat",1]', false),
        up('', true, 0),
        upBinary('one'),
        upBinary('t', false),
        up('wo', true, 0),
      ];
      const bytes = Buffer.concat(parts);
      for (let cut = 1; cut < bytes.length; cut++) {
        const { it, passed } = browser();
        it.write(Buffer.from(bytes.subarray(0, cut)));
        it.inject(ours);
        it.write(Buffer.from(bytes.subarray(cut)));
        const before = passed().indexOf(oursUp);
        expect([0, bytes.length]).toContain(before);
        expect(passed().length).toBe(bytes.length + oursUp.length);
        expect(it.queuedBytes).toBe(0);
      }
      const { it, passed } = browser();
      const ping = wireFrame(9, true, Buffer.from('ping'), KEY);
      it.write(ping.subarray(0, 8));
      it.inject(ours);
      it.write(ping.subarray(8));
      expect(passed().equals(Buffer.concat([ping, oursUp]))).toBe(true);
    });

    test('ahead of a packet that is gathered, of which nothing has passed', () => {
      const { it, passed } = browser();
      it.write(up(binaryOffer));
      it.inject(ours);
      expect(passed().equals(oursUp)).toBe(true);
    });

    test('what a served event puts in comes after what was before it', () => {
      const out: Buffer[] = [];
      const it: BrowserSplice = new BrowserSplice(
        {
          pass: (b) => out.push(Buffer.from(b)),
          packet: () => () => it.inject(ours),
          foreign: () => expect.unreachable(),
        },
        interest,
        { maxPayload: 1000, counters: { forwardedUp: 0 }, known: true },
      );
      it.write(Buffer.concat([up(chat), up(offer), up('43[]')]));
      expect(Buffer.concat(out).equals(Buffer.concat([up(chat), oursUp, up('43[]')]))).toBe(true);
    });

    test('a served event’s function runs once all before it has passed, and nothing of what is behind it', () => {
      for (const parts of [[up(offer)], [up(offer.slice(0, 20), false), up(offer.slice(20), true, 0)]]) {
        const out: Buffer[] = [];
        let before = -1;
        const it = new BrowserSplice(
          {
            pass: (b) => out.push(Buffer.from(b)),
            packet: () => () => {
              before = Buffer.concat(out).length;
            },
            foreign: () => expect.unreachable(),
          },
          interest,
          { maxPayload: 1000, counters: { forwardedUp: 0 }, known: true },
        );
        it.write(Buffer.concat([up(chat), ...parts, up(chat)]));
        expect(before).toBe(up(chat).length);
      }
    });

    test('while a fragmented event is gathered, of which nothing has passed', () => {
      const { it, served, passed } = browser();
      it.write(up(offer.slice(0, 20), false));
      expect(it.atBoundary).toBe(true);
      it.inject(ours);
      expect(passed().equals(oursUp)).toBe(true);
      it.write(up(offer.slice(20), true, 0));
      expect(served.length).toBe(1);
    });

    test('not after the browser’s close frame', () => {
      const { it, log, passed } = browser();
      const close = closeFrame(1001, 'bye', true, 0x01020304);
      it.write(up('451-["chat"]'));
      expect(it.inject(ours)).toBe(true);
      it.write(close.subarray(0, 4));
      it.write(Buffer.concat([close.subarray(4), up(offer)]));
      expect(log).toEqual(['close 1001']);
      expect(it.inject(ours)).toBe(false);
      expect(passed().equals(Buffer.concat([up('451-["chat"]'), close, up(offer)]))).toBe(true);
    });
  });

  describe('an upgrade from polling', () => {
    test('nothing is looked into before the 5, nothing put in', () => {
      const { it, log, served, passed } = browser({ upgrading: true });
      it.inject(ours);
      it.write(Buffer.concat([up('2probe'), up(offer)]));
      expect(served).toEqual([]);
      expect(passed().indexOf(oursUp)).toBe(-1);
      it.write(Buffer.concat([up('5'), up(offer)]));
      expect(log).toEqual(['engine 2probe', 'engine 5']);
      expect(served.length).toBe(1);
      expect(passed().equals(Buffer.concat([up('2probe'), up(offer), up('5'), oursUp]))).toBe(true);
    });

    test('an event that began by POST is completed here, in the same chunk as the 5', () => {
      const served: Packet[] = [];
      const it: BrowserSplice = new BrowserSplice(
        {
          pass: () => undefined,
          packet: (packet) => () => served.push(packet),
          foreign: () => expect.unreachable(),
          engine: (type) => {
            if (type === '5') it.adopt({ text: binaryOffer, attachments: [Buffer.from('one')], due: 2 });
          },
        },
        interest,
        { maxPayload: 1000, counters: { forwardedUp: 0 }, known: true, upgrading: true },
      );
      it.write(Buffer.concat([up('5'), upBinary('two'), up('3')]));
      expect(served.map((p) => [p.text, ...p.attachments.map(String)])).toEqual([[binaryOffer, 'one', 'two']]);
    });

    test('or goes to the legacy as frames where its attachments do not come', () => {
      const { it, passed } = browser();
      it.adopt({ text: binaryOffer, attachments: [Buffer.from('one')], due: 2 });
      it.write(up(chat));
      expect(readWire(passed()).map(({ opcode, payload }) => [opcode, payload.toString()])).toEqual([
        [1, binaryOffer],
        [2, 'one'],
        [1, chat],
      ]);
    });
  });

  test('stopLooking: what was held goes on, and all after it', () => {
    const { it, passed, served } = browser();
    const bytes = Buffer.concat([up(binaryOffer), up(offer)]);
    it.write(bytes.subarray(0, 100));
    it.stopLooking();
    it.write(bytes.subarray(100));
    expect(passed().equals(bytes)).toBe(true);
    expect(served).toEqual([]);
  });

  test('end: what was held goes on, wherever the stream breaks off', () => {
    const bytes = Buffer.concat([up(chat), up(binaryOffer), upBinary('one')]);
    for (const [a] of cuts(bytes)) {
      const { it, passed } = browser();
      it.write(a);
      it.end();
      it.write(up(chat));
      expect(passed().equals(a)).toBe(true);
    }
  });
});
