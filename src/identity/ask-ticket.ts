// Asks the legacy's ticket endpoint: one GET, or one POST for all that is asked within a moment, where the legacy knows
// that. Knows nothing of what a ticket says.
import { Agent } from 'undici';
import { z } from 'zod';
import type { Clock, Timer } from '../base/clock.js';
import { type Answer, ask, faultOf, parsed, placed } from './http.js';
import {
  fromStatus,
  isUnusual,
  type MembershipQuestion,
  type MembershipSource,
  ofTheId,
  type SourceAnswer,
} from './ticket.js';

export interface TicketSourceOptions {
  readonly clock: Clock;
  /** A legacy that lives, or null. Asked for each request; not where the URLs are absolute. */
  readonly base: () => URL | null;
  /** A CA of the legacy's own, PEM. */
  readonly ca?: string | Buffer;
  /** Absolute, or a path on the legacy: `/api/calls/ticket`. */
  readonly ticketUrl?: string;
  /** The endpoint for many at once, `/api/calls/tickets`; null: there is none. */
  readonly ticketsUrl?: string | null;
}

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
  /**
   * It granted or refused a ticket once: from then on a 404, or what else `ofTheId` names, is about the conversation, before it
   * about the endpoint.
   */
  isThere: boolean;
}

interface Waiting {
  readonly question: MembershipQuestion & { readonly token: string };
  readonly answered: (answer: SourceAnswer) => void;
}

export function createTicketSource(options: TicketSourceOptions): MembershipSource {
  const { clock, base, ticketUrl = '/api/calls/ticket', ticketsUrl = '/api/calls/tickets' } = options;
  const dispatcher = new Agent({
    connections: MOST_SOCKETS,
    connect: { timeout: TIMEOUT_MS, ...(options.ca === undefined ? {} : { ca: options.ca }) },
  });
  const abilities = new Map<string, Ability>();
  let gathered: Waiting[] = [];
  let timer: Timer | undefined;

  const abilityOf = ({ origin }: URL): Ability => {
    let ability = abilities.get(origin);
    if (!ability) {
      ability = { notBefore: 0, mostPosted: MOST_POSTED, isThere: false };
      abilities.set(origin, ability); // As many as there are legacies.
    }
    return ability;
  };

  const one = async (at: URL, { question, answered }: Waiting) => {
    const url = new URL(at);
    url.searchParams.set('conversationId', question.conversationId);
    try {
      const headers = { authorization: `Bearer ${question.token}` };
      const answer = await ask(url, { headers, timeoutMs: TIMEOUT_MS, mostBytes: MOST_BYTES, dispatcher });
      const ability = abilityOf(url);
      if (answer.status === 200 || answer.status === 403) ability.isThere = true;
      const missing = ofTheId.has(answer.status) && !ability.isThere;
      answered(missing ? { kind: 'unavailable', why: noEndpoint(url, answer.status) } : fromAnswer(answer));
    } catch (error) {
      answered({ kind: 'unavailable', why: faultOf(error) });
    }
  };

  const many = async (at: URL, single: URL, all: readonly Waiting[]) => {
    const ability = abilityOf(at);
    const body = JSON.stringify({ requests: all.map(({ question }) => question) });
    let answer: Answer;
    try {
      answer = await ask(at, {
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
      abilityOf(single).isThere = true;
      ability.isThere = true;
      for (const [i, { answered }] of all.entries()) answered(fromItem(items[i]));
      return;
    }
    // One question that the legacy can't take must not be held against those beside it: each is asked for itself.
    if (answer.status === 500 || ((answer.status === 400 || answer.status === 422) && ability.isThere)) {
      for (const waiting of all) void one(single, waiting);
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
    for (const waiting of all) void one(single, waiting);
  };

  const flush = () => {
    timer?.cancel();
    timer = undefined;
    const all = gathered;
    gathered = [];
    const legacy = base();
    const single = placed(ticketUrl, legacy);
    if (!single) {
      for (const { answered } of all) answered({ kind: 'unavailable', why: 'no legacy lives' });
      return;
    }
    const several = ticketsUrl === null ? null : placed(ticketsUrl, legacy);
    const ability = several && abilityOf(several);
    if (!several || !ability || clock.now() < ability.notBefore) {
      for (const waiting of all) void one(single, waiting);
      return;
    }
    for (const waiting of all.filter(isAlone)) void one(single, waiting);
    for (const part of partsOf(
      all.filter((waiting) => !isAlone(waiting)),
      ability.mostPosted,
    )) {
      void (part.length === 1 ? one(single, part[0]!) : many(several, single, part));
    }
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

/** Nobody else's question goes with one that the legacy may break over. */
const isAlone = ({ question }: Waiting): boolean => isUnusual(question.conversationId);

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

const noEndpoint = ({ pathname }: URL, status: number): string =>
  `the legacy answers ${status} at ${pathname}: if it issues tickets elsewhere give --ticket-url, if it issues none --membership-url`;

const isLateOrDown = (status: number): boolean => status === 408 || status === 429 || (status >= 500 && status !== 501);
