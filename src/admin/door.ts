// Who comes in: the token or the machine's own user, from the same page only, and not as often as they like. Knows no
// endpoint and no HTTP library. There are no cookies and no CORS, so a page of another site has nothing to send or to read.
import type { IncomingMessage } from 'node:http';
import { isIP } from 'node:net';
import type { Clock } from '../base/clock.js';
import { type Answer, refuse } from './answer.js';
import type { Who } from './endpoints.js';
import { type Limit, limit } from './limits.js';
import { type Access, isActor, isReserved, type Tokens } from './tokens.js';

export interface Admitted {
  readonly who: Who;
  readonly access: Access;
  /** What limits count by: the token's name, or the address. */
  readonly key: string;
}

export interface Door {
  admit(request: IncomingMessage): Promise<Admitted | Answer>;
  /** Without a token: pages that anybody may load who may reach the listener. */
  admitToPages(request: IncomingMessage): Answer | null;
  /** Null: not too often. `cost`: for how many it counts. */
  often(admitted: Admitted, kind: 'read' | 'change', cost?: number): Answer | null;
}

/** Without tokens the listener is on loopback, and everybody there may operate. */
export function door(tokens: Tokens | undefined, clock?: Pick<Clock, 'now'>): Door {
  const limits: Readonly<Record<'read' | 'change', Limit>> = {
    read: limit({ burst: 200, perSecond: 50 }, clock),
    change: limit({ burst: 100, perSecond: 10 }, clock),
  };
  // Whoever guesses tokens, or loads pages. One that is right gets in all the same.
  const strangers = limit({ burst: 10, perSecond: 1 }, clock);
  const visitors = limit({ burst: 200, perSecond: 50 }, clock);

  return {
    async admit(request) {
      const elsewhere = fromElsewhere(request, tokens !== undefined) ?? crossSite(request);
      if (elsewhere !== null) return refuse('forbidden', [elsewhere]);
      const address = addressOf(request);
      const via = viaOf(request);
      if (!tokens) {
        const actor = request.headers['x-sigfig-actor'] ?? 'local';
        if (typeof actor === 'string' && isReserved(actor)) {
          return refuse('invalid', [`X-Sigfig-Actor: ${actor} is sigfig's own name in the history; give another`]);
        }
        if (typeof actor === 'string' && isActor(actor)) {
          return { who: { actor, via }, access: 'operate', key: `address ${address}` };
        }
        return refuse('invalid', ['X-Sigfig-Actor must be 1 to 64 printable characters']);
      }
      const token = /^Bearer +([!-~]+) *$/i.exec(request.headers.authorization ?? '')?.[1];
      const operator = token === undefined ? undefined : await tokens.operator(token);
      if (operator) {
        return { who: { actor: operator.name, via }, access: operator.access, key: `token ${operator.name}` };
      }
      if (!strangers.take(address)) return tooOften();
      const why = token === undefined ? 'a token is needed here' : 'this token is not known here';
      return refuse(
        'unauthorized',
        [`${why}; send "Authorization: Bearer TOKEN" with one of the file of --admin-tokens`],
        {
          headers: { 'www-authenticate': 'Bearer realm="sigfig"' },
        },
      );
    },
    admitToPages(request) {
      const elsewhere = fromElsewhere(request, tokens !== undefined);
      if (elsewhere !== null) return refuse('forbidden', [elsewhere]);
      return visitors.take(addressOf(request)) ? null : tooOften();
    },
    often: ({ key }, kind, cost) => (limits[kind].take(key, cost) ? null : tooOften()),
  };
}

const tooOften = (): Answer =>
  refuse('rate-limited', ['too many requests; wait a second'], { headers: { 'retry-after': '1' } });

const addressOf = (request: IncomingMessage): string => request.socket.remoteAddress ?? 'unknown';

function viaOf(request: IncomingMessage): Who['via'] {
  const client = request.headers['x-sigfig-client'];
  return client === 'cli' || client === 'dashboard' ? client : 'api';
}

/**
 * Where no token is asked for, the name that was asked for must be this machine's own: a page of another site whose name was
 * made to point here (DNS rebinding) says that site's name. The port may be another one, as through a tunnel.
 */
function fromElsewhere(request: IncomingMessage, withTokens: boolean): string | null {
  const { host, origin } = request.headers;
  if (!withTokens && !isLoopbackName(hostName(host ?? ''))) {
    return 'without tokens this answers to 127.0.0.1, [::1] and localhost only; ask by one of these, or give --admin-tokens';
  }
  if (origin !== undefined && hostOf(origin) !== host?.toLowerCase()) {
    return "a page of another site asks; open the dashboard at this listener's own address";
  }
  return null;
}

/** A browser tells where a request comes from even where it sends no Origin. Source: Fetch Metadata. */
function crossSite(request: IncomingMessage): string | null {
  const site = request.headers['sec-fetch-site'];
  return site === undefined || site === 'same-origin' || site === 'none'
    ? null
    : "a page of another site asks; open the dashboard at this listener's own address";
}

const hostOf = (origin: string): string | null => (URL.canParse(origin) ? new URL(origin).host : null);
/** Without its port and its brackets. */
const hostName = (host: string): string =>
  /^(?:\[([^\]]*)\]|([^:]*))(?::\d*)?$/.exec(host)?.slice(1).find(Boolean) ?? '';

const isLoopbackName = (name: string): boolean => name.toLowerCase() === 'localhost' || isLoopback(name);

/** An address that no other machine can reach. */
export const isLoopback = (address: string): boolean => {
  const plain = address.replace(/^::ffff:(?=\d+\.)/i, '');
  return (isIP(plain) === 4 && plain.startsWith('127.')) || plain === '::1';
};
