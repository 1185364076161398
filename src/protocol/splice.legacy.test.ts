// The splice from the legacy to the browser.
import { describe, expect, test } from 'vitest';
import { closeFrame } from './frame.js';
import type { Outgoing } from './packet.js';
import { binaryOffer, chat, cuts, down, legacy, offer, ours, oursDown, up } from './splice.fixture.js';
import { LegacySplice } from './splice.js';
import { legacyInterest, readWire } from './wire.fixture.js';

describe('from the legacy', () => {
  const open = '0{"sid":"s","upgrades":[],"pingInterval":25000,"pingTimeout":20000,"maxPayload":1000000}';

  test('the handshake is read once, wherever the stream is cut', () => {
    const bytes = Buffer.concat([down(open), down('2'), down('40{"sid":"x"}')]);
    for (const [a, b] of cuts(bytes)) {
      const { it, opens, log, shown, passed } = legacy();
      it.write(a);
      it.write(b);
      expect(opens.map((o) => o.maxPayload)).toEqual([1_000_000]);
      expect(log).toEqual(['engine 2']);
      expect(shown.map((p) => p.text)).toEqual(['40{"sid":"x"}']);
      expect(passed().equals(bytes)).toBe(true);
    }
  });

  test('CONNECT is shown before the browser gets any of it', () => {
    const order: string[] = [];
    const it = new LegacySplice(
      {
        pass: (b) => order.push(b.toString('latin1')),
        packet(p) {
          order.push(`shown ${p.text}`);
          return 'pass';
        },
      },
      legacyInterest(),
      { watching: () => false, counters: { forwardedDown: 0 } },
    );
    const bytes = down('40{"sid":"x"}');
    it.write(bytes.subarray(0, 6));
    it.write(bytes.subarray(6));
    expect(order).toEqual(['shown 40{"sid":"x"}', bytes.toString('latin1')]);
  });

  test('events are shown only while somebody watches', () => {
    const { it, shown, counters } = legacy({ watching: false });
    it.write(Buffer.concat([down(offer), down('44{"message":"no"}'), down('41/app,')]));
    expect(shown.map((p) => [p.type, p.ns])).toEqual([
      [4, '/'],
      [1, '/app'],
    ]);
    expect(counters.forwardedDown).toBe(3);
  });

  test('over 1 MiB nothing waits to be shown', () => {
    const { it, shown, passed } = legacy();
    const bytes = down(`42["call-offer","${'x'.repeat(1 << 20)}"]`);
    it.write(Buffer.from(bytes.subarray(0, 2000)));
    expect(passed().length).toBe(2000);
    it.write(Buffer.from(bytes.subarray(2000)));
    expect(passed().equals(bytes)).toBe(true);
    expect(shown).toEqual([]);
  });

  test('a masked frame from a server: all flows on unseen', () => {
    const { it, log, passed } = legacy();
    const bytes = Buffer.concat([up(chat), down('40{"sid":"x"}')]);
    it.write(bytes);
    expect(log).toEqual(['masking']);
    expect(passed().equals(bytes)).toBe(true);
  });

  describe('putting in', () => {
    test('never between a header and its attachments, wherever the stream is cut', () => {
      const bytes = Buffer.concat([
        down('461-7[{"_placeholder":true,"num":0}]'),
        down('one', true, 2),
        down('451-["call-offer",{"_placeholder":true,"num":0}]'),
        down('two', true, 2),
      ]);
      const second = bytes.indexOf('451-') - 2;
      for (const [a, b] of cuts(bytes)) {
        const { it, passed } = legacy();
        it.write(a);
        it.inject([ours, ours]);
        it.write(b);
        const at = passed().indexOf(oursDown);
        expect([0, second, bytes.length]).toContain(at);
        expect(
          Buffer.concat([passed().subarray(0, at), passed().subarray(at + 2 * oursDown.length)]).equals(bytes),
        ).toBe(true);
      }
    });

    test('waits until it is enabled, and counts what waits', () => {
      const { it, out, passed } = legacy({ enabled: false });
      it.inject([ours]);
      it.write(down('3probe'));
      expect(it.queuedBytes).toBe(oursDown.length);
      it.enabled = true;
      expect(it.queuedBytes).toBe(0);
      expect(passed().equals(Buffer.concat([down('3probe'), oursDown]))).toBe(true);
      expect(out.length).toBe(2);
    });

    test('attachments that were due by polling come first', () => {
      const { it, passed } = legacy();
      it.attachmentsDue = 2;
      it.inject([ours]);
      it.write(down('one', true, 2));
      expect(it.queuedBytes).toBeGreaterThan(0);
      it.write(down('two', true, 2));
      expect(passed().equals(Buffer.concat([down('one', true, 2), down('two', true, 2), oursDown]))).toBe(true);
    });

    test('a watched packet that began by polling is shown once it is whole, and passes only once', () => {
      const { it, shown, passed } = legacy();
      it.adopt({ text: binaryOffer, attachments: [Buffer.from('one')], due: 2 });
      expect(it.atBoundary).toBe(false);
      it.inject([ours]);
      it.write(down('two', true, 2));
      expect(shown[0]?.attachments.map(String)).toEqual(['one', 'two']);
      expect(passed().equals(Buffer.concat([down('two', true, 2), oursDown]))).toBe(true);
    });

    test('not after the legacy’s close frame', () => {
      const { it, log, passed } = legacy();
      it.write(closeFrame(1000));
      expect(log).toEqual(['close 1000']);
      expect(it.inject([ours])).toBe(false);
      expect(passed().equals(closeFrame(1000))).toBe(true);
    });
  });

  test('hold keeps all back, release lets it go in order', () => {
    const { it, passed, shown } = legacy();
    it.hold();
    const chunk = down('40{"sid":"x"}');
    it.write(Buffer.from(chunk));
    it.inject([ours]);
    it.write(down(chat));
    expect(passed().length).toBe(0);
    expect(shown).toEqual([]);
    expect(it.heldBytes).toBe(chunk.length + down(chat).length);
    it.release();
    expect(passed().equals(Buffer.concat([chunk, oursDown, down(chat)]))).toBe(true);
    expect(it.heldBytes).toBe(0);
  });

  describe('an awaited acknowledgement', () => {
    const ack = '43/app,7[[1.0]]';
    const binaryAck = '462-7[{"_placeholder":true,"num":0},{"_placeholder":true,"num":1}]';
    const before = down(chat);
    const behind = Buffer.concat([down(offer), down('2'), down(chat)]);

    test('waits with all that follows it, wherever the stream is cut, and then passes with its bytes', () => {
      const bytes = Buffer.concat([before, down(ack), behind]);
      for (const [a, b] of cuts(bytes)) {
        const { it, shown, passed, log, counters } = legacy({ awaited: [7] });
        it.write(a);
        it.write(b);
        a.fill(0);
        b.fill(0); // the reader's buffer is used again
        expect(passed().equals(before)).toBe(true);
        expect(it.holding).toBe(true);
        expect(it.heldBytes).toBe(behind.length);
        expect(shown.map((p) => p.text)).toEqual([ack]);
        expect(it.atBoundary).toBe(true);
        it.settle();
        expect(passed().equals(bytes)).toBe(true);
        expect(shown.map((p) => p.text)).toEqual([ack, offer]);
        expect(log).toEqual(['engine 2']);
        expect(counters.forwardedDown).toBe(4);
        expect([it.holding, it.heldBytes]).toEqual([false, 0]);
      }
    });

    test('is replaced by another, attachments and all, wherever the stream is cut', () => {
      const other: Outgoing = { text: '461-7[[{"_placeholder":true,"num":0}]]', attachments: [Buffer.from('new')] };
      const whole = Buffer.concat([down(binaryAck), down('one', true, 2), down('two', true, 2)]);
      const bytes = Buffer.concat([before, whole, behind]);
      const want = Buffer.concat([before, down(other.text), down('new', true, 2), behind]);
      for (const [a, b] of cuts(bytes)) {
        for (const at of ['once', 'later'] as const) {
          const { it, shown, passed } = legacy({ awaited: [7], passage: () => (at === 'once' ? other : 'hold') });
          it.write(a);
          it.write(b);
          it.settle(other);
          expect(shown[0]?.attachments.map(String)).toEqual(['one', 'two']);
          expect(passed().equals(want)).toBe(true);
        }
      }
    });

    test('fragments: its own frames pass again', () => {
      const bytes = Buffer.concat([
        down('43/ap', false),
        down('', true, 9),
        down('p,7[', false, 0),
        down(']', true, 0),
      ]);
      for (const [a, b] of cuts(bytes)) {
        const { it, passed } = legacy({ awaited: [7] });
        it.write(a);
        it.write(b);
        it.settle();
        const sort = (all: Buffer) =>
          readWire(all)
            .map((f) => `${f.opcode} ${f.payload}`)
            .sort();
        expect(sort(passed())).toEqual(sort(bytes));
      }
    });

    test('one behind another waits in its turn', () => {
      const { it, shown, passed } = legacy({ awaited: [1, 2] });
      const bytes = Buffer.concat([down('431[]'), down(chat), down('432[]'), down('433[]')]);
      it.write(bytes);
      it.settle();
      expect(shown.map((p) => p.id)).toEqual([1, 2]);
      expect(passed().equals(Buffer.concat([down('431[]'), down(chat)]))).toBe(true);
      it.settle();
      expect(passed().equals(bytes)).toBe(true);
    });

    test('what is put in meanwhile goes behind what was there by then, and counts as waiting', () => {
      const { it, passed } = legacy({ awaited: [7] });
      it.write(Buffer.concat([down('437[]'), down(chat)]));
      it.inject([ours]);
      it.write(down('2'));
      expect(it.queuedBytes).toBe(ours.text.length);
      expect(passed().length).toBe(0);
      it.settle();
      expect(passed().equals(Buffer.concat([down('437[]'), down(chat), oursDown, down('2')]))).toBe(true);
      expect(it.queuedBytes).toBe(0);
    });

    test('what is put in meanwhile waits for the end of a packet that has begun', () => {
      const { it, passed } = legacy({ awaited: [7] });
      const [first, last] = [down('42["a",', false), down('1]', true, 0)];
      it.write(Buffer.concat([down('437[]'), first]));
      it.inject([ours]);
      it.write(last);
      it.settle();
      expect(passed().equals(Buffer.concat([down('437[]'), first, last, oursDown]))).toBe(true);
    });

    test('behind the hold of an upgrade', () => {
      const { it, shown, passed } = legacy({ awaited: [7], enabled: false });
      it.hold();
      it.write(Buffer.concat([down('437[]'), down(chat)]));
      expect(shown).toEqual([]);
      it.settle(); // nothing waits for it yet
      it.enabled = true;
      it.inject([ours]);
      it.release();
      expect(shown.map((p) => p.id)).toEqual([7]);
      expect(passed().length).toBe(0);
      it.settle();
      expect(passed().equals(Buffer.concat([down('437[]'), down(chat), oursDown]))).toBe(true);
    });

    test('the hold of an upgrade keeps its place behind it', () => {
      const { it, passed } = legacy({ awaited: [7] });
      it.write(Buffer.concat([down('437[]'), down(chat)]));
      it.hold();
      it.settle();
      expect(passed().equals(down('437[]'))).toBe(true);
      it.release();
      expect(passed().equals(Buffer.concat([down('437[]'), down(chat)]))).toBe(true);
    });

    test('at the end all goes on, and nothing waits any more', () => {
      const { it, passed } = legacy({ awaited: [1, 2] });
      const bytes = Buffer.concat([down('431[]'), down('432[]'), closeFrame(1000)]);
      it.write(bytes);
      it.end();
      expect(passed().equals(bytes)).toBe(true);
    });

    test('passes unseen where it is nobody’s, and where nothing is awaited', () => {
      const bytes = Buffer.concat(
        ['438[]', '43/other,7[]', '43/app7[]', '437', '43x', '43-7[]', '43/app,[]', `43/${'n'.repeat(120)},7[]`].map(
          (text) => down(text),
        ),
      );
      const { it, shown, passed } = legacy({ awaited: [7] });
      it.write(bytes);
      expect(passed().equals(bytes)).toBe(true);
      const none = legacy();
      none.it.write(down('437[]'));
      expect([shown, none.shown]).toEqual([[], []]);
    });

    test('threat: over 1 MiB it is not kept', () => {
      const { it, shown, passed } = legacy({ awaited: [7] });
      const bytes = down(`437["${'x'.repeat(1 << 20)}"]`);
      it.write(Buffer.from(bytes));
      expect(passed().equals(bytes)).toBe(true);
      expect(shown).toEqual([]);
    });
  });
});
