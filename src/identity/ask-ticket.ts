// Asks the legacy's ticket endpoint: one GET, or one POST for all that is asked within a moment, where the legacy knows
// that. Knows nothing of what a ticket says.
import { Agent } from 'undici';
import { z } from 'zod';
import type { Clock, Timer } from '../base/clock.js';
import { type Answer, ask, faultOf, parsed, under } from './http.js';
import { fromStatus, type MembershipQuestion, type MembershipSource, type SourceAnswer } from './ticket.js';

export interface TicketSourceOptions {
  readonly clock: Clock;
  /** A legacy that lives, or null. Asked for each request. */
  readonly base: () => URL | null;
  /** A CA of the legacy's own, PEM. */
  readonly ca?: string | Buffer;
  /** `/api/calls/ticket`; the many-at-once endpoint is its plural. */
  readonly path?: string;
}

const PATH = '/api/calls/ticket';
const GATHER_MS = 2;
const MOST_AT_ONCE = 256;
/** Express takes 100 kB of JSON by default; 256 long tokens would be more. */
const MOST_POSTED = 96 * 1024;
/** A legacy that knows no many-at-once endpoint is asked for it again after this long: it may have been updated. */
const RETRY_MS = 600_000;
const TIMEOUT_MS = 1_800;
const MOST_BYTES = 64 * 1024;
/** 256 tickets of about 400 bytes; some are longer. */
const MOST_BYTES_AT_ONCE = 512 * 1024;
/** Sockets to one legacy; more questions wait for one of them. */
const MOST_SOCKETS = 64;

/** What one legacy was found to take, by origin. */
interface Ability {
  /** No POST before this time. */
  notBefore: number;
  mostPosted: number;
}

interface Waiting {
  readonly question: MembershipQuestion & { readonly token: string };
  readonly answered: (answer: SourceAnswer) => void;
}

export function createTicketSource(options: TicketSourceOptions): MembershipSource {
  const { clock, base, path = PATH } = options;
  const dispatcher = new Agent({
    connections: MOST_SOCKETS,
    connect: { timeout: TIMEOUT_MS, ...(options.ca === undefined ? {} : { ca: options.ca }) },
  });
  const abilities = new Map<string, Ability>();
  let gathered: Waiting[] = [];
  let timer: Timer | undefined;

  const abilityOf = (legacy: URL): Ability => {
    let ability = abilities.get(legacy.origin);
    if (!ability) {
      ability = { notBefore: 0, mostPosted: MOST_POSTED };
      abilities.set(legacy.origin, ability); // As many as there are legacies.
    }
    return ability;
  };

  const one = async (legacy: URL, { question, answered }: Waiting) => {
    const url = under(legacy, path);
    url.searchParams.set('conversationId', question.conversationId);
    try {
      const headers = { authorization: `Bearer ${question.token}` };
      answered(fromAnswer(await ask(url, { headers, timeoutMs: TIMEOUT_MS, mostBytes: MOST_BYTES, dispatcher })));
    } catch (error) {
      answered({ kind: 'unavailable', why: faultOf(error) });
    }
  };

  const many = async (legacy: URL, all: readonly Waiting[]) => {
    const ability = abilityOf(legacy);
    const body = JSON.stringify({ requests: all.map(({ question }) => question) });
    let answer: Answer;
    try {
      answer = await ask(under(legacy, `${path}s`), {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body,
        timeoutMs: TIMEOUT_MS,
        mostBytes: MOST_BYTES_AT_ONCE,
        dispatcher,
      });
    } catch (error) {
      for (const { answered } of all) answered({ kind: 'unavailable', why: faultOf(error) });
      return;
    }
    const items = readItems(answer, all.length);
    if (items) {
      for (const [i, { answered }] of all.entries()) answered(fromItem(items[i]));
      return;
    }
    if (answer.status === 413) {
      ability.mostPosted = Math.max(1, Math.floor(body.length / 2));
    } else if (isLateOrDown(answer.status)) {
      for (const { answered } of all) answered({ kind: 'unavailable', why: `the legacy answered ${answer.status}` });
      return;
    } else {
      // 404, 405 and 501 say that there is no such endpoint; so do a login wall's 401 or a page, in other words.
      ability.notBefore = clock.now() + RETRY_MS;
    }
    for (const waiting of all) void one(legacy, waiting);
  };

  const flush = () => {
    timer?.cancel();
    timer = undefined;
    const all = gathered;
    gathered = [];
    const legacy = base();
    if (!legacy) {
      for (const { answered } of all) answered({ kind: 'unavailable', why: 'no legacy lives' });
      return;
    }
    const ability = abilityOf(legacy);
    const parts = clock.now() < ability.notBefore ? all.map((w) => [w]) : partsOf(all, ability.mostPosted);
    for (const part of parts) void (part.length === 1 ? one(legacy, part[0]!) : many(legacy, part));
  };

  return {
    ask({ token, conversationId }) {
      if (token === undefined) return Promise.resolve({ kind: 'unavailable', why: 'the browser brought no token' });
      return new Promise((answered) => {
        gathered.push({ question: { token, conversationId }, answered });
        if (gathered.length >= MOST_AT_ONCE) flush();
        else timer ??= clock.after(GATHER_MS, flush);
      });
    },
    close: () => dispatcher.destroy(),
  };
}

/** Parts that each fit one request. */
function partsOf(all: readonly Waiting[], mostPosted: number): Waiting[][] {
  const parts: Waiting[][] = [];
  let size = Number.POSITIVE_INFINITY;
  for (const waiting of all) {
    const more = JSON.stringify(waiting.question).length + 1;
    if (size + more > mostPosted) {
      parts.push([]);
      size = '{"requests":[]}'.length;
    }
    parts.at(-1)!.push(waiting);
    size += more;
  }
  return parts;
}

const TicketBody = z.object({ ticket: z.string().min(1) });
const Item = z.union([TicketBody, z.object({ status: z.number() })]);
const Items = z.union([
  z.object({ tickets: z.array(z.unknown()) }).transform(({ tickets }) => tickets),
  z.array(z.unknown()),
]);

function readItems({ status, body }: Answer, count: number): readonly unknown[] | undefined {
  if (status !== 200) return undefined;
  const items = Items.safeParse(parsed(body));
  return items.success && items.data.length === count ? items.data : undefined;
}

function fromItem(item: unknown): SourceAnswer {
  const read = Item.safeParse(item);
  if (!read.success) return { kind: 'unavailable', why: "the legacy's answer makes no sense" };
  return 'ticket' in read.data ? { kind: 'ticket', ticket: read.data.ticket } : fromStatus(read.data.status);
}

function fromAnswer({ status, body }: Answer): SourceAnswer {
  if (status !== 200) return fromStatus(status);
  const read = TicketBody.safeParse(parsed(body));
  return read.success
    ? { kind: 'ticket', ticket: read.data.ticket }
    : { kind: 'unavailable', why: "the legacy's answer makes no sense" };
}

const isLateOrDown = (status: number): boolean => status === 408 || status === 429 || (status >= 500 && status !== 501);
