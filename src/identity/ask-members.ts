// Asks any REST endpoint of the legacy's that shows a conversation to its members, for a legacy without tickets.
// Knows nothing of who asks; the participants that it finds are checked elsewhere.
import { Agent } from 'undici';
import { ask, faultOf, parsed, placed } from './http.js';
import { keepsPath } from './path.js';
import { fromStatus, type MembershipSource, ofTheId } from './ticket.js';

export interface MemberSourceOptions {
  /** A legacy that lives, or null; does not matter where the template is a whole URL. */
  readonly base: () => URL | null;
  /** `/api/conversations/{conversationId}`, or a whole URL with the placeholder in its path or query. */
  readonly template: string;
  /** Where the ids stand in the JSON: `/participants/*\/id` (RFC 6901; `*` for every element of a list). */
  readonly pointer: string;
  /** Asks with this token instead of the browser's own. */
  readonly serviceToken?: string;
  /** A CA of the legacy's own, PEM. */
  readonly ca?: string | Buffer;
}

const PLACEHOLDER = '{conversationId}';
const TIMEOUT_MS = 1_800;
const MOST_BYTES = 64 * 1024;
const MOST_SOCKETS = 64;
/** A 1:1 call needs two; a group's list need not be read to its end. */
const MOST_IDS = 256;

/** @throws Error of one clear line where the template or the pointer can't work. */
export function createMemberSource(options: MemberSourceOptions): MembershipSource {
  const { base, template, pointer, serviceToken } = options;
  const whole = /^https?:\/\//i.test(template);
  if (!template.includes(PLACEHOLDER)) throw new Error(`the membership URL ${template} lacks ${PLACEHOLDER}`);
  if (!whole && !template.startsWith('/')) {
    throw new Error(`the membership URL ${template} must start with / or http(s)://`);
  }
  if (
    whole &&
    new URL(template.replaceAll(PLACEHOLDER, 'x')).origin !== new URL(template.replaceAll(PLACEHOLDER, 'y')).origin
  ) {
    throw new Error(`the membership URL ${template} has ${PLACEHOLDER} in its host`);
  }
  if (
    !keepsPath(new URL(template.replaceAll(PLACEHOLDER, 'x'), 'http://legacy'), template.replaceAll(PLACEHOLDER, 'x'))
  ) {
    throw new Error(`the membership URL ${template} must be written as it is sent: percent-encoded, without . and ..`);
  }
  const steps = parsePointer(pointer);
  /**
   * Origins that showed or refused a conversation once: from then on a 404, or what else `ofTheId` names, is about the
   * conversation, before it about the URL. As many as there are legacies.
   */
  const there = new Set<string>();
  const dispatcher = new Agent({
    connections: MOST_SOCKETS,
    connect: { timeout: TIMEOUT_MS, ...(options.ca === undefined ? {} : { ca: options.ca }) },
  });

  return {
    async ask({ token, conversationId }) {
      const bearer = serviceToken ?? token;
      if (bearer === undefined) return { kind: 'unavailable', why: 'the browser brought no token' };
      const filled = template.replaceAll(PLACEHOLDER, () => encodeURIComponent(conversationId));
      const url = placed(filled, base());
      if (!url) return { kind: 'unavailable', why: 'no legacy lives' };
      // An id like `..` would be taken for a step in the path, and lead to another endpoint.
      if (!keepsPath(url, filled)) return { kind: 'not-participant' };
      try {
        const headers = { authorization: `Bearer ${bearer}` };
        const answer = await ask(url, { headers, timeoutMs: TIMEOUT_MS, mostBytes: MOST_BYTES, dispatcher });
        if (answer.status === 401 && serviceToken !== undefined) {
          return { kind: 'unavailable', why: 'the legacy refused the service token (401)' };
        }
        if (answer.status === 403) there.add(url.origin);
        if (ofTheId.has(answer.status) && !there.has(url.origin)) {
          return { kind: 'unavailable', why: noEndpoint(template, answer.status) };
        }
        if (answer.status !== 200) return fromStatus(answer.status);
        const ids = at(parsed(answer.body), steps).slice(0, MOST_IDS);
        // Some answer any path with a page: only what holds members shows that the URL is right.
        if (ids.length === 0) return { kind: 'unavailable', why: `the legacy's answer has nothing at ${pointer}` };
        there.add(url.origin);
        return { kind: 'list', ids };
      } catch (error) {
        return { kind: 'unavailable', why: faultOf(error) };
      }
    },
    close: () => dispatcher.destroy(),
  };
}

/** By the template's path: an id of somebody's conversation says nothing of the fault, and a host may stand behind a password. */
const noEndpoint = (template: string, status: number): string =>
  `the legacy answers ${status} at ${template.replace(/^https?:\/\/[^/?#]*|[?#].*$/gis, '') || '/'} and has shown no conversation there yet: is --membership-url right?`;

/** @throws Error of one clear line. */
export function parsePointer(pointer: string): readonly string[] {
  if (!pointer.startsWith('/')) throw new Error(`the membership path "${pointer}" must start with /`);
  return pointer
    .slice(1)
    .split('/')
    .map((step) => step.replaceAll('~1', '/').replaceAll('~0', '~'));
}

/** Every value that the steps lead to; what is missing or of another shape leads nowhere. */
export function at(json: unknown, steps: readonly string[]): unknown[] {
  let here: unknown[] = [json];
  for (const step of steps) {
    here = here.flatMap((value): unknown[] => {
      if (Array.isArray(value)) return step === '*' ? value : /^\d+$/.test(step) ? value.slice(+step, +step + 1) : [];
      if (typeof value !== 'object' || value === null || !Object.hasOwn(value, step)) return [];
      return [(value as Record<string, unknown>)[step]];
    });
  }
  return here;
}
