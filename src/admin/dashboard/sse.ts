// Reads Server-Sent Events from bytes as they come. Knows nothing of what the events say.
// Source: the WHATWG HTML standard, section 9.2.6; `id` and `retry` are not used here.

export interface ServerEvent {
  readonly event: string;
  readonly data: string;
}

/** Over any live snapshot by far (200 events with their graphs are about 300 kB); a stream that goes past it is none of ours. */
const MAX_EVENT_CHARACTERS = 4 * 1024 * 1024;

/** Yields until the stream ends. @throws where it breaks, or where one event is too long. */
export async function* serverEvents(stream: ReadableStream<Uint8Array>): AsyncGenerator<ServerEvent> {
  const reader = stream.getReader();
  const decoder = new TextDecoder();
  let rest = '';
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      rest += decoder.decode(value, { stream: true });
      // The last piece may be half an event, or end in the first half of a CR LF.
      const pieces = rest.split(/\r\n\r\n|\n\n|\r\r(?!\n)/);
      rest = pieces.pop() ?? '';
      if (rest.length > MAX_EVENT_CHARACTERS) throw new RangeError('an event of the stream is too long');
      for (const piece of pieces) {
        const event = parsed(piece);
        if (event) yield event;
      }
    }
  } finally {
    await reader.cancel().catch(() => undefined); // it was broken or aborted already
  }
}

function parsed(text: string): ServerEvent | undefined {
  let event = 'message';
  const data: string[] = [];
  for (const line of text.split(/\r\n|\n|\r/)) {
    const colon = line.indexOf(':');
    if (colon === 0) continue; // a comment, which keeps the connection warm
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '');
    if (field === 'event') event = value;
    else if (field === 'data') data.push(value);
  }
  return data.length > 0 ? { event, data: data.join('\n') } : undefined;
}
