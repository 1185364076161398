// The frame of every transparency case: one script is played against a legacy directly and against a legacy of the same
// kind through the proxy, and what it noted must be equal. Knows nothing of what the scripts do.
import { describe, expect, it } from 'vitest';
import { type Legacy, type LegacyOptions, startLegacy } from '../../legacy-stub/server.js';
import { allLegacy, callsNew, startProxy, startStack } from '../harness.js';

/** Where a script plays. */
export interface Place {
  /** `http://127.0.0.1:PORT` of the legacy or of the proxy before it. */
  readonly url: string;
  /** The legacy behind it, to look at what it saw. */
  readonly legacy: Legacy;
  token(user: string): string;
}

/** Any backend that speaks Engine.IO, for what the legacy stub can't be told to do. */
export interface Backend {
  readonly url: string;
  close(): Promise<void>;
}

export type Note = (what: string, ...details: unknown[]) => void;

/** With nothing served here, and with all call events served here. */
const TABLES = { legacy: allLegacy, new: callsNew };

/**
 * Two cases of one script, one for each route table. The notes are equal but for ids, times and ports.
 * @param least how many notes a script makes at least, so that it can't pass by noting nothing.
 */
export function same(
  title: string,
  least: number,
  options: LegacyOptions,
  script: (place: Place, note: Note) => Promise<void>,
): void {
  const place = (url: string, legacy: Legacy): Place => ({
    url,
    legacy,
    token: (user) => legacy.tokens.issue({ id: user, name: user }),
  });
  compared(title, least, async (routes, note) => {
    if (routes === undefined) {
      const legacy = await startLegacy(options);
      try {
        await script(place(legacy.url, legacy), note);
      } finally {
        await legacy.close();
      }
      return;
    }
    const stack = await startStack({ routes, legacy: options });
    try {
      await script(place(stack.proxy.url, stack.legacy), note);
    } finally {
      await stack.close();
    }
  });
}

/** The same for a backend of the case's own. */
export function sameFor(
  title: string,
  least: number,
  start: () => Promise<Backend>,
  script: (url: string, note: Note) => Promise<void>,
): void {
  compared(title, least, async (routes, note) => {
    const backend = await start();
    const proxy = routes === undefined ? undefined : await startProxy(backend.url, { routes });
    try {
      await script(proxy?.url ?? backend.url, note);
    } finally {
      await proxy?.close();
      await backend.close();
    }
  });
}

function compared(title: string, least: number, play: (routes: string | undefined, note: Note) => Promise<void>): void {
  const noted = async (routes: string | undefined): Promise<string[]> => {
    const notes: string[] = [];
    await play(routes, (what, ...details) => {
      notes.push(plain([what, ...details.map((d) => (typeof d === 'string' ? d : JSON.stringify(d)))].join(' ')));
    });
    return notes;
  };
  describe(title, () => {
    for (const [name, routes] of Object.entries(TABLES)) {
      it(`calls: ${name}`, async () => {
        const direct = await noted(undefined);
        expect(direct.length).toBeGreaterThanOrEqual(least);
        expect(await noted(routes)).toEqual(direct);
      });
    }
  });
}

/** Takes out what differs from one run to the next: ids, times, tokens, ports. */
function plain(text: string): string {
  return (
    text
      .replace(/\b(sid|pid|socketId|id)(\\*":\\*")[^"\\]+/g, '$1$2…')
      .replace(/\beyJ[\w-]+\.[\w-]+\.[\w-]+/g, '<token>')
      .replace(/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, '<uuid>')
      .replace(/\b1[6-9]\d{11}\b/g, '<time>')
      .replace(/\bio=[\w-]{20}/g, 'io=<sid>')
      // The offset of connection state recovery, at the end of an event.
      .replace(/,(\\*")[\w-]{7}(?:\.[\w-]+)?\1\]/g, ',<offset>]')
      .replace(/127\.0\.0\.1:\d+/g, '127.0.0.1:<port>')
  );
}
