// Whatever comes, however it is cut: what passes is byte-identical and in order, what is taken is exactly what was
// named and whole, and nothing is put into a message or between a header and its attachments.
import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Outgoing, Packet } from './packet.js';
import { BrowserSplice, LegacySplice } from './splice.js';
import {
  chunking,
  chunks,
  expected,
  interest,
  legacyInterest,
  type Message,
  masks,
  messages,
  readWire,
  takes,
  wire,
} from './wire.fixture.js';

const MAX = 2000;
const RUNS = 400;
const ours = (n: number): Outgoing =>
  n % 2 === 0
    ? { text: `43/injected,${n}[]`, attachments: [] }
    : { text: `461-/injected,${n}[]`, attachments: [Buffer.from(`injected ${n}`)] };
const isOurs = (payload: Buffer) =>
  payload.toString('latin1').includes('/injected,') || payload.toString('latin1').startsWith('injected ');

/** Sorts what passed: data, Engine.IO packets with control frames, and ours; checks where ours stand. */
function sort(out: Buffer, cut = false) {
  const data: Buffer[] = [];
  const beside: string[] = [];
  const injected: string[] = [];
  let inside = false;
  let due = 0;
  let next = 0;
  let attachment = false;
  let engine = false;
  let parts: Buffer[] = [];
  for (const { opcode, fin, payload, raw } of readWire(out, cut)) {
    if (opcode >= 8) {
      beside.push(raw.toString('hex'));
      continue;
    }
    if (isOurs(payload)) {
      expect(inside, 'put into a fragmented message').toBe(false);
      if (opcode === 1) expect(due, 'put between a header and its attachments').toBe(0);
      injected.push(payload.toString());
      continue;
    }
    parts.push(payload);
    inside = !fin;
    if (opcode !== 0) {
      engine = false;
      attachment = opcode === 2;
    }
    data.push(raw);
    if (!fin) continue;
    const whole = Buffer.concat(parts);
    const first = whole[0];
    if (!attachment && whole.length > 0 && first !== 0x34 && first !== 0x62) {
      engine = true;
    }
    if (first === 0x62 && !attachment) attachment = true;
    if (engine) {
      // Engine.IO packets may overtake what is gathered: counted apart.
      let n = parts.length;
      const own: Buffer[] = [];
      while (n-- > 0) own.unshift(data.pop()!);
      beside.push(Buffer.concat(own).toString('hex'));
    } else if (attachment) due = Math.max(0, due - 1);
    else {
      next = Number(/^4[56](\d{1,9})-/.exec(whole.toString('latin1'))?.[1] ?? 0);
      due = next;
    }
    parts = [];
  }
  if (cut) data.length -= parts.length; // of a message that is not whole, nothing
  return { data: Buffer.concat(data), beside, injected };
}

const plain = (packets: readonly { text: string; attachments: readonly Buffer[] }[]) =>
  packets.map(({ text, attachments }) => [text, ...attachments.map((bytes) => bytes.toString('hex'))]);

function besideOf(list: readonly Message[], keys: Buffer[] | null) {
  return sort(wire(list, keys).bytes).beside;
}

test('from the browser: passes, takes and puts in, whole, by bytes and at random', () => {
  fc.assert(
    fc.property(messages, masks, chunking, fc.array(fc.nat(30), { maxLength: 4 }), (list, keys, how, moments) => {
      const sent = wire(list, keys);
      const out: Buffer[] = [];
      const shown: Packet[] = [];
      const taken: Packet[] = [];
      let serial = 0;
      const queued: string[] = [];
      const put = () => {
        const packet = ours(serial++);
        if (splice.inject(packet)) queued.push(packet.text, ...packet.attachments.map(String));
      };
      const splice: BrowserSplice = new BrowserSplice(
        {
          pass: (bytes) => out.push(Buffer.from(bytes)),
          packet(packet) {
            shown.push(packet);
            if (!takes(packet.name)) return 'pass';
            return () => {
              taken.push(packet);
              if (taken.length % 2 === 0) put();
            };
          },
          foreign: () => expect.unreachable('foreign'),
          violation: (why) => expect.unreachable(why),
        },
        interest,
        { maxPayload: MAX, counters: { forwardedUp: 0 }, known: true },
      );
      let turn = 0;
      for (const chunk of chunks(sent.bytes, how)) {
        splice.write(chunk);
        chunk.fill(0); // the reader's buffer is used again
        if (moments.includes(turn++)) put();
      }
      const waiting = splice.queuedBytes;
      splice.end();
      const want = expected(list, true, MAX);
      const got = sort(Buffer.concat(out));
      expect(got.data.toString('hex')).toBe(Buffer.concat(want.passed.map((i) => sent.data[i]!)).toString('hex'));
      expect(plain(shown)).toEqual(plain(want.shown));
      expect(plain(taken)).toEqual(plain(want.taken));
      expect(got.beside).toEqual(besideOf(list, keys));
      expect(got.injected).toEqual(waiting === 0 ? queued : queued.slice(0, got.injected.length));
    }),
    { numRuns: RUNS },
  );
}, 30_000);

test('from the legacy: passes all, shows before it passes, puts in', () => {
  fc.assert(
    fc.property(messages, chunking, fc.array(fc.nat(30), { maxLength: 4 }), (list, how, moments) => {
      const sent = wire(list, null);
      const want = expected(list, false, 1 << 20);
      const out: Buffer[] = [];
      let written = 0;
      const shown: Packet[] = [];
      let serial = 0;
      const queued: string[] = [];
      const put = () => {
        const packets = [ours(serial++), ours(serial++)];
        if (splice.inject(packets)) for (const p of packets) queued.push(p.text, ...p.attachments.map(String));
      };
      const splice: LegacySplice = new LegacySplice(
        {
          pass: (bytes) => {
            written += bytes.length;
            out.push(Buffer.from(bytes));
          },
          packet(packet) {
            shown.push(packet);
            const before = sort(Buffer.concat(out), true).data.length;
            const at = want.shown[shown.length - 1]!.at;
            const earlier = sent.data.filter((_, i) => i < at && want.passed.includes(i));
            expect(before, 'passed before it was shown').toBeLessThanOrEqual(Buffer.concat(earlier).length);
            if (shown.length % 3 === 0) put();
            return 'pass';
          },
          violation: (why) => expect.unreachable(why),
        },
        legacyInterest(),
        { watching: () => true, counters: { forwardedDown: 0 } },
      );
      let turn = 0;
      for (const chunk of chunks(sent.bytes, how)) {
        splice.write(chunk);
        chunk.fill(0);
        if (moments.includes(turn++)) put();
      }
      const waiting = splice.queuedBytes;
      splice.end();
      const got = sort(Buffer.concat(out));
      expect(got.data.toString('hex')).toBe(Buffer.concat(want.passed.map((i) => sent.data[i]!)).toString('hex'));
      expect(plain(shown)).toEqual(plain(want.shown));
      expect(got.beside).toEqual(besideOf(list, null));
      expect(got.injected).toEqual(waiting === 0 ? queued : queued.slice(0, got.injected.length));
      expect(written).toBeGreaterThanOrEqual(sent.bytes.length);
    }),
    { numRuns: RUNS },
  );
}, 30_000);

test('from the legacy, with acknowledgements held at random: nothing lost, doubled or reordered, ours between whole packets', () => {
  let holds = 0;
  fc.assert(
    fc.property(
      messages,
      chunking,
      fc.array(fc.constantFrom('put', 'settle', 'hold', 'release', 'nothing'), { minLength: 1, maxLength: 12 }),
      fc.array(fc.nat(20), { minLength: 1, maxLength: 4 }),
      (some, how, moves, places) => {
        const list = [...some];
        const ack: Message = { opcode: 1, payload: Buffer.from('43/app,7[[1.0]]'), cuts: [], controls: [] };
        for (const at of places) list.splice(at, 0, ack);
        const sent = wire(list, null);
        const out: Buffer[] = [];
        const queued: string[] = [];
        let serial = 0;
        let held = 0;
        const splice: LegacySplice = new LegacySplice(
          {
            pass: (bytes) => out.push(Buffer.from(bytes)),
            packet(packet) {
              if (packet.type !== 3 && packet.type !== 6) return 'pass';
              held++;
              return 'hold';
            },
            violation: (why) => expect.unreachable(why),
          },
          legacyInterest([7, 3]),
          { watching: () => true, counters: { forwardedDown: 0 } },
        );
        let turn = 0;
        for (const chunk of chunks(sent.bytes, how)) {
          splice.write(chunk);
          chunk.fill(0);
          const move = moves[turn++ % moves.length];
          if (move === 'settle') splice.settle();
          else if (move === 'hold') splice.hold();
          else if (move === 'release') splice.release();
          else if (move === 'put') {
            const packet = ours(serial++);
            if (splice.inject([packet])) queued.push(packet.text, ...packet.attachments.map(String));
          }
        }
        splice.release();
        while (splice.holding) splice.settle();
        const waiting = splice.queuedBytes;
        splice.end();
        holds += held;
        const got = sort(Buffer.concat(out));
        const want = expected(list, false, 1 << 20);
        expect(got.data.toString('hex')).toBe(Buffer.concat(want.passed.map((i) => sent.data[i]!)).toString('hex'));
        expect(got.beside).toEqual(besideOf(list, null));
        expect(got.injected).toEqual(waiting === 0 ? queued : queued.slice(0, got.injected.length));
      },
    ),
    { numRuns: RUNS },
  );
  expect(holds).toBeGreaterThan(RUNS);
}, 30_000);
