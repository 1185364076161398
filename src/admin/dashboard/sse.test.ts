import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type ServerEvent, serverEvents } from './sse.js';

const streamOf = (...chunks: readonly Uint8Array[]) =>
  new ReadableStream<Uint8Array>({
    start(controller) {
      for (const chunk of chunks) controller.enqueue(chunk);
      controller.close();
    },
  });
const bytes = (text: string) => new TextEncoder().encode(text);

async function all(stream: ReadableStream<Uint8Array>): Promise<ServerEvent[]> {
  const events: ServerEvent[] = [];
  for await (const event of serverEvents(stream)) events.push(event);
  return events;
}

describe('server events', () => {
  const cases: readonly [string, string, readonly ServerEvent[]][] = [
    ['a named event', 'event: live\ndata: {"a":1}\n\n', [{ event: 'live', data: '{"a":1}' }]],
    ['an event without a name', 'data: x\n\n', [{ event: 'message', data: 'x' }]],
    ['data of two lines', 'data: a\ndata: b\n\n', [{ event: 'message', data: 'a\nb' }]],
    ['a comment, and a name without data', ': warm\n\nevent: live\n\n', []],
    [
      'CR LF',
      'event: live\r\ndata: a\r\n\r\ndata: b\r\n\r\n',
      [
        { event: 'live', data: 'a' },
        { event: 'message', data: 'b' },
      ],
    ],
    ['an event that was cut off', 'data: a\n\ndata: b\n', [{ event: 'message', data: 'a' }]],
    ['text beyond ASCII', 'data: ü€😀\n\n', [{ event: 'message', data: 'ü€😀' }]],
  ];
  it.each(cases)('reads %s, split at every byte', async (_, text, expected) => {
    const whole = bytes(text);
    expect(await all(streamOf(whole))).toEqual(expected);
    for (let i = 1; i < whole.length; i += 1) {
      expect(await all(streamOf(whole.slice(0, i), whole.slice(i))), `split at ${i}`).toEqual(expected);
    }
  });

  it('reads the same events however the bytes come', async () => {
    const data = fc.string({ maxLength: 40 }).map((text) => text.replace(/[\r\n]/g, ' ').trim());
    await fc.assert(
      fc.asyncProperty(fc.array(data, { maxLength: 6 }), fc.integer({ min: 1, max: 9 }), async (lines, size) => {
        const whole = bytes(lines.map((line) => `event: live\ndata: ${line}\n\n`).join(''));
        const chunks: Uint8Array[] = [];
        for (let i = 0; i < whole.length; i += size) chunks.push(whole.slice(i, i + size));
        expect((await all(streamOf(...chunks))).map((event) => event.data)).toEqual(lines);
      }),
    );
  });

  it('gives up on an event without an end', async () => {
    const chunk = bytes('x'.repeat(1024 * 1024));
    await expect(all(streamOf(bytes('data: '), ...new Array<Uint8Array>(5).fill(chunk)))).rejects.toThrow(/too long/);
  });
});
