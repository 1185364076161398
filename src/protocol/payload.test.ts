import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { AnswerScanner } from './answer-scanner.js';
import type { Packet, Passage } from './packet.js';
import { encodePayload, joinPayload, payloadFrames, splitPayload } from './payload.js';
import { PostFilter } from './post-filter.js';
import { expected, interest, items, legacyInterest, type Message, readWire, takes } from './wire.fixture.js';

const RUNS = 300;
const RS = '\x1e';
const body = (...parts: string[]) => Buffer.from(parts.join(RS));
const wanted = '42["call-offer",{"conversationId":"c"}]';
const binaryHeader = '452-7["call-offer",{"_placeholder":true,"num":0},{"_placeholder":true,"num":1}]';
const b64 = (text: string) => `b${Buffer.from(text).toString('base64')}`;

function filter(verdict: (packet: Packet) => boolean = (packet) => takes(packet.name), maxPayload = 1e6) {
  const shown: Packet[] = [];
  const served: Packet[] = [];
  let foreign = 0;
  const it = new PostFilter(
    {
      packet(packet) {
        shown.push(packet);
        return verdict(packet) ? () => served.push(packet) : 'pass';
      },
      foreign: () => foreign++,
    },
    interest,
    maxPayload,
    { forwardedUp: 0 },
  );
  return { it, shown, served, foreign: () => foreign };
}

function scanner(
  watching = true,
  awaited: readonly number[] = [],
  passage: (packet: Packet) => Passage = () => 'hold',
) {
  const shown: Packet[] = [];
  const it = new AnswerScanner(
    {
      packet(packet) {
        shown.push(packet);
        return packet.type === 3 || packet.type === 6 ? passage(packet) : 'pass';
      },
    },
    legacyInterest(awaited),
    () => watching,
    { forwardedDown: 0 },
  );
  return { it, shown };
}

/** The model's messages: a `b…` item is a binary message. */
const asMessages = (list: readonly Buffer[]): Message[] =>
  list.map((item) =>
    item[0] === 0x62
      ? { opcode: 2, payload: Buffer.from(item.toString('latin1', 1), 'base64'), cuts: [], controls: [] }
      : { opcode: 1, payload: item, cuts: [], controls: [] },
  );

const plain = (packets: readonly { text: string; attachments: readonly Buffer[] }[]) =>
  packets.map(({ text, attachments }) => [text, ...attachments.map((bytes) => bytes.toString('hex'))]);

function* bodies(list: readonly Buffer[], sizes: readonly number[]): Generator<Buffer> {
  for (let at = 0, turn = 0; at < list.length; turn++) {
    const n = sizes[turn % sizes.length]!;
    yield joinPayload(list.slice(at, at + n));
    at += n;
  }
}

describe('what a browser posts', () => {
  test('nothing taken: the very same bytes', () => {
    const { it } = filter();
    const sent = body('40', '42["chat-message","hi"]', '3');
    expect(it.filter(sent).rest).toBe(sent);
  });

  test('a named event is cut out from between the others, and served later', () => {
    const { it, served } = filter();
    const { rest, serve } = it.filter(body('3', wanted, '42["chat-message"]'));
    expect(rest?.toString()).toBe('3\x1e42["chat-message"]');
    expect(served).toEqual([]);
    for (const run of serve) run();
    expect(served.map((p) => p.text)).toEqual([wanted]);
  });

  test('nothing is left where all is taken', () => {
    expect(filter().it.filter(body(wanted, wanted)).rest).toBeNull();
  });

  test('header and attachments in three POSTs', () => {
    const { it, shown } = filter();
    expect(it.filter(body(binaryHeader)).rest).toBeNull();
    expect(it.filter(body(b64('one'))).rest).toBeNull();
    const { rest, serve } = it.filter(body(b64('two'), '3'));
    expect(rest?.toString()).toBe('3');
    expect(serve.length).toBe(1);
    expect(shown[0]?.attachments.map(String)).toEqual(['one', 'two']);
    expect(shown[0]?.id).toBe(7);
  });

  test('an event that its owner lets pass goes on with all its attachments, in its place', () => {
    const { it } = filter(() => false);
    it.filter(body(binaryHeader, b64('one')));
    expect(it.filter(body(b64('two'), '3')).rest?.toString()).toBe(
      [binaryHeader, b64('one'), b64('two'), '3'].join(RS),
    );
  });

  test('a header whose attachment does not come goes on before what comes instead, and that is not taken', () => {
    const { it, shown } = filter();
    it.filter(body(binaryHeader, b64('one')));
    expect(it.filter(body(wanted)).rest?.toString()).toBe([binaryHeader, b64('one'), wanted].join(RS));
    expect(shown).toEqual([]);
  });

  test('more attachments than a payload may be long: all goes on', () => {
    const { it, shown } = filter(undefined, 100);
    it.filter(body(binaryHeader));
    const big = b64('x'.repeat(300));
    expect(it.filter(body(big)).rest?.toString()).toBe([binaryHeader, big].join(RS));
    expect(it.attachmentsDue).toBe(1);
    const last = body(b64('two'));
    expect(it.filter(last).rest).toBe(last);
    expect(it.attachmentsDue).toBe(0);
    expect(shown).toEqual([]);
  });

  test('what is incomplete at the upgrade is handed over', () => {
    const { it } = filter();
    it.filter(body(binaryHeader, b64('one')));
    expect(it.takeIncomplete()).toEqual({ text: binaryHeader, attachments: [Buffer.from('one')], due: 2 });
    expect(it.takeIncomplete()).toBeNull();
  });

  test('a forwarded header leaves its attachments due', () => {
    const { it } = filter();
    it.filter(body('453-["chat",1]', b64('one')));
    expect(it.attachmentsDue).toBe(2);
  });

  test.each([
    ['binary before any header', [b64('\x81\xa4')]],
    ['JSON objects for packets', ['4{"type":0}']],
  ])('another parser: %s', (_, parts) => {
    const { it, foreign, shown } = filter();
    const sent = body('2probe', ...parts, wanted);
    expect(it.filter(sent).rest).toBe(sent);
    expect(it.filter(body(wanted)).rest?.toString()).toBe(wanted);
    expect(foreign()).toBe(1);
    expect(shown).toEqual([]);
  });

  test('a binary packet after the parser is known is the legacy’s to refuse', () => {
    const { it, foreign } = filter();
    it.filter(body('40'));
    expect(it.filter(body(b64('x'))).rest?.toString()).toBe(b64('x'));
    expect(foreign()).toBe(0);
  });

  test.each([
    ['empty body', ''],
    ['separators only', `${RS}${RS}`],
    ['ends in a separator', `42["x"]${RS}`],
  ])('%s passes', (_, text) => {
    const sent = Buffer.from(text);
    expect(filter().it.filter(sent).rest).toBe(sent);
  });

  test('any packets in any bodies: the rest keeps its items and their order, each taken event is whole', () => {
    fc.assert(
      fc.property(items, fc.array(fc.integer({ min: 1, max: 4 }), { minLength: 1, maxLength: 5 }), (list, sizes) => {
        // An item that begins with `b` is an attachment; a session that begins with one speaks another parser.
        const all = [Buffer.from('40'), ...list];
        const { it, shown } = filter();
        const rest: Buffer[] = [];
        for (const sent of bodies(all, sizes)) {
          const { rest: left } = it.filter(sent);
          if (left !== null) rest.push(...splitPayload(Buffer.from(left)));
          sent.fill(0); // the reader's buffer is used again
        }
        const incomplete = it.takeIncomplete();
        const want = expected(asMessages(all), true, 1e9);
        expect(plain(shown)).toEqual(plain(want.shown));
        const data = (list: readonly Buffer[]) =>
          list.filter((item) => item.length === 0 || item[0] === 0x34 || item[0] === 0x62).map(String);
        const tail = incomplete === null ? 0 : 1 + incomplete.attachments.length;
        const passed = want.passed.map((i) => all[i]!);
        expect(data(rest)).toEqual(data(passed.slice(0, passed.length - tail)));
      }),
      { numRuns: RUNS },
    );
  }, 30_000);
});

describe('what the legacy answers', () => {
  test('the handshake, a ping, a close', () => {
    const open = '0{"sid":"s","upgrades":["websocket"],"pingInterval":25000,"pingTimeout":20000,"maxPayload":1000000}';
    expect(scanner().it.scan(body(open, '40{"sid":"x"}'))).toMatchObject({
      gone: false,
      ping: false,
      open: { sid: 's' },
    });
    expect(scanner().it.scan(body('2'))).toMatchObject({ gone: false, ping: true, open: null });
    const last = body('42["x"]', '1');
    const scanned = scanner().it.scan(last);
    expect(scanned).toMatchObject({ gone: true, ping: false, open: null });
    expect(scanned?.body).toBe(last);
  });

  test('CONNECT, DISCONNECT and CONNECT_ERROR are shown, events only while somebody watches', () => {
    const { it, shown } = scanner(false);
    it.scan(body('40{"sid":"x"}', wanted, '44/app,{"message":"no"}', '41/app,', '430[]'));
    expect(shown.map((p) => [p.type, p.ns])).toEqual([
      [0, '/'],
      [4, '/app'],
      [1, '/app'],
    ]);
  });

  test('attachments that come in a later answer', () => {
    const { it, shown } = scanner();
    it.scan(body(binaryHeader));
    expect(it.attachmentsDue).toBe(2);
    it.scan(body(b64('one')));
    expect(it.attachmentsDue).toBe(1);
    expect(shown).toEqual([]);
    it.scan(body(b64('two')));
    expect(it.attachmentsDue).toBe(0);
    expect(shown[0]?.attachments.map(String)).toEqual(['one', 'two']);
  });

  test('a watched packet that is incomplete at the upgrade is handed over', () => {
    const { it } = scanner();
    it.scan(body(binaryHeader, b64('one')));
    expect(it.takeIncomplete()).toMatchObject({ text: binaryHeader, due: 2, attachments: [Buffer.from('one')] });
  });

  describe('an awaited acknowledgement', () => {
    const ack = '43/app,7[[1.0]]';
    const more = ['42["chat", 1]', ack, wanted, '2', '1'];

    test('holds the answer; nothing behind it is looked at before it is settled', () => {
      const { it, shown } = scanner(true, [7]);
      const sent = body(...more);
      expect(it.scan(sent)).toBeNull();
      expect(shown.map((p) => p.text)).toEqual([ack]);
      const scanned = it.settle();
      expect(scanned).toMatchObject({ gone: true, ping: true });
      expect(scanned?.body).toBe(sent);
      expect(shown.map((p) => p.text)).toEqual([ack, wanted]);
    });

    test('is replaced by another packet, with attachments perhaps; the rest keeps its bytes', () => {
      const { it } = scanner(true, [7]);
      it.scan(body(...more));
      const other = { text: '461-/app,7[[{"_placeholder":true,"num":0}]]', attachments: [Buffer.from('one')] };
      expect(String(it.settle(other)?.body)).toBe(['42["chat", 1]', other.text, b64('one'), wanted, '2', '1'].join(RS));
    });

    test('with attachments: they are shown with it, and go with it', () => {
      const binary = ['42["x"]', '462-7[{"_placeholder":true,"num":0},1]', b64('one'), b64('two'), '42["y"]'];
      const { it, shown } = scanner(true, [7], () => ({ text: '437[[]]', attachments: [] }));
      expect(String(it.scan(body(...binary))?.body)).toBe(['42["x"]', '437[[]]', '42["y"]'].join(RS));
      expect(shown[0]?.attachments.map(String)).toEqual(['one', 'two']);
      expect(it.attachmentsDue).toBe(0);
    });

    test('one after another in one answer', () => {
      const { it } = scanner(true, [1, 2]);
      expect(it.scan(body('431[]', '432[]', '433[]'))).toBeNull();
      expect(it.settle({ text: '431[1]', attachments: [] })).toBeNull();
      expect(String(it.settle()?.body)).toBe(['431[1]', '432[]', '433[]'].join(RS));
    });

    test('passes unseen where it is nobody’s, goes on as it comes, or lacks attachments', () => {
      const { it, shown } = scanner(true, [7]);
      for (const text of ['438[]', '43/other,7[]', '43/app7[]', '437', '43x', '43-7[]', '460-7[]', '43/app,[]']) {
        expect(String(it.scan(body(text))?.body), text).toBe(text);
      }
      expect(String(it.scan(body('437[]'), 'passing').body)).toBe('437[]');
      it.scan(body('461-7[{"_placeholder":true,"num":0}]'));
      it.scan(body(b64('one')));
      expect(shown).toEqual([]);
    });
  });

  test('any packets: shown as the model says', () => {
    fc.assert(
      fc.property(items, fc.array(fc.integer({ min: 1, max: 4 }), { minLength: 1, maxLength: 5 }), (list, sizes) => {
        const { it, shown } = scanner();
        for (const answer of bodies(list, sizes)) it.scan(answer);
        expect(plain(shown)).toEqual(plain(expected(asMessages(list), false, 1 << 20).shown));
      }),
      { numRuns: RUNS },
    );
  }, 30_000);
});

describe('from one transport to the other', () => {
  test('our packets as a payload', () => {
    const packets = [
      { text: '431[]', attachments: [] },
      { text: '451-["x",0]', attachments: [Buffer.from([255, 0])] },
    ];
    expect(encodePayload(packets).toString()).toBe('431[]\x1e451-["x",0]\x1eb/wA=');
  });

  test('an unfetched answer as frames: binary as binary, noop and close left out', () => {
    const frames = readWire(payloadFrames(body('6', '451-["x"]', b64('one'), '2', '1')));
    expect(frames.map(({ opcode, payload }) => [opcode, payload.toString()])).toEqual([
      [1, '451-["x"]'],
      [2, 'one'],
      [1, '2'],
    ]);
    expect(payloadFrames(body('6')).length).toBe(0);
    expect(payloadFrames(body('')).length).toBe(0);
  });
});
