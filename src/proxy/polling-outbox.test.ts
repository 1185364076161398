import { describe, expect, it } from 'vitest';
import { MAX_OUTBOX, Outbox } from './polling-outbox.js';

describe('the outbox', () => {
  it('makes a payload of what waits, attachments behind their header, and is empty then', () => {
    const outbox = new Outbox();
    outbox.add([{ text: '42["a"]', attachments: [] }]);
    outbox.add([{ text: '451-["b",{"_placeholder":true,"num":0}]', attachments: [Buffer.from([1, 2, 3])] }]);
    expect(outbox.takePayload().toString()).toBe('42["a"]\x1e451-["b",{"_placeholder":true,"num":0}]\x1ebAQID');
    expect(outbox.empty).toBe(true);
    expect(outbox.bytes).toBe(0);
  });

  it.each([
    ['text', { text: 'x'.repeat(MAX_OUTBOX), attachments: [] }, true],
    ['text beyond', { text: 'x'.repeat(MAX_OUTBOX + 1), attachments: [] }, false],
    ['text of two bytes a character', { text: 'é'.repeat(MAX_OUTBOX / 2 + 1), attachments: [] }, false],
    ['an attachment, as base64', { text: '', attachments: [Buffer.alloc(MAX_OUTBOX * 0.75)] }, true],
    ['an attachment beyond', { text: '', attachments: [Buffer.alloc(MAX_OUTBOX * 0.75 + 3)] }, false],
  ])('holds 1 MiB: %s', (_what, packet, fits) => {
    expect(new Outbox().add([packet])).toBe(fits);
  });
});
