// What must be true of a random play once nothing is under way any more. Each broken rule is one line. Knows no internals:
// only what browsers said and heard, what reached the legacy, and what was decided.
import { groupOf } from '../../src/routing/route.js';
import type { Body, Browser, Said } from './browser.js';
import { type Fate, shown, type World } from './world.js';

export function verdictOf(world: World): string[] {
  return [
    ...world.faults,
    ...answers(world),
    ...deliveries(world),
    ...paths(world),
    ...heardPaths(world),
    ...candidates(world),
    ...canary(world),
  ];
}

/** Every request of a browser that stayed is answered exactly once, and nobody's is twice. */
function answers(world: World): string[] {
  return world.browsers.flatMap((browser) =>
    browser.said
      .filter(({ acks }) => acks.length > 1 || (acks.length === 0 && world.isConnected(browser)))
      .map((said) => `${shown(said)} was acknowledged ${said.acks.length} times`),
  );
}

/** Nothing reaches the legacy twice or out of its order, and what was decided for it reaches it. */
function deliveries(world: World): string[] {
  const faults: string[] = [];
  const last = new Map<string, Said>();
  const arrived = new Set<Said>();
  for (const said of world.atLegacy) {
    if (arrived.has(said)) faults.push(`${shown(said)} reached the legacy twice`);
    arrived.add(said);
    if (wasAhead(said, world)) continue;
    const lane = `${said.device} ${said.about === undefined ? 'chat' : said.conversationId}`;
    const before = last.get(lane);
    if (before && before.n > said.n) faults.push(`${shown(said)} reached the legacy after ${shown(before)}`);
    last.set(lane, said);
  }
  for (const { said, decision } of world.fates.values()) {
    const stayed = world.browsers.some((browser) => browser.name === said.device && world.isConnected(browser));
    if (stayed && decision.path === 'legacy' && !arrived.has(said))
      faults.push(`${shown(said)} never reached the legacy`);
    const final = decision.path === 'new' && !['held', 'early', 'peeled'].includes(decision.because);
    if (final && arrived.has(said)) {
      const kept = said.name === 'call-offer' || wasAhead(said, world);
      if (!kept) faults.push(`${shown(said)} was served here and reached the legacy`);
    }
  }
  return faults;
}

/** A candidate that ran ahead of an offer and was held here: it follows the next offer of its socket, or is forgotten. */
function wasAhead(said: Said, world: World): boolean {
  const call = world.calls.get(said.about ?? '');
  const fate = world.fates.get(said);
  if (said.name !== 'ice-candidate' || fate?.decision.path !== 'new') return false;
  // One that trails a call that is over is taken for one that runs ahead of the next.
  return fate.decision.because === 'early' || fate.atDecision === 'over' || !call?.path || isAhead(said, call.offer);
}

/** All that is said about a live call goes where its offer was accepted. */
function paths(world: World): string[] {
  const toLegacy = new Set(world.atLegacy);
  const left = new Set<string>();
  const faults: string[] = [];
  for (const fate of world.fates.values()) {
    const { said, decision } = fate;
    const call = world.calls.get(said.about as string);
    if (!call?.path || said.name === 'call-offer' || !counts(fate)) continue;
    if (isAhead(said, call.offer)) continue;
    const path = toLegacy.has(said) ? 'legacy' : 'new';
    const group = groupOf.get(said.name) as string;
    if (call.path === 'legacy' && call.peeled.has(group)) {
      // Relays are served here, or, from some moment on, by the legacy.
      const gone = `${call.tag} ${group} ${said.device}`;
      if (path === 'legacy') left.add(gone);
      else if (left.has(gone))
        faults.push(`${shown(said)} was served here after its call's relays were left to the legacy`);
      continue;
    }
    if (path !== call.path)
      faults.push(`${shown(said)} went to ${path}, its call is on ${call.path} (${decision.because})`);
  }
  return faults;
}

/** What was decided, and served or forwarded, while the call was not over; what was lost with its connection is neither. */
const counts = ({ atDecision, atEnd, decision, said }: Fate): boolean =>
  atEnd !== undefined &&
  atDecision !== 'over' &&
  (decision.because !== 'held' || (atEnd !== 'over' && said.name !== 'call-end'));

const isAhead = (said: Said, offer: Said): boolean => said.device === offer.device && said.n < offer.n;

/** What a browser hears about a call comes from the path that has it; what was said once it was over may be anywhere. */
function heardPaths(world: World): string[] {
  return world.browsers.flatMap(({ name, heard }) =>
    heard.flatMap(({ name: event, body, origin }) => {
      const call = body && world.calls.get(body.about);
      const said = world.saidBy(body?.from, body?.n);
      const fate = said && world.fates.get(said);
      if (!call?.path || !fate || !counts(fate) || isAhead(fate.said, call.offer)) return [];
      if ((call.path === 'new') === (origin === 'here')) return [];
      if (call.path === 'legacy' && call.peeled.has(groupOf.get(event) ?? '')) return [];
      return [`${name} heard ${event} of ${call.tag} from ${origin}, which is on ${call.path}`];
    }),
  );
}

/** Candidates come in the order in which they were sent, once; all of them where nothing disturbed the call. */
function candidates(world: World): string[] {
  const faults: string[] = [];
  for (const browser of world.browsers) {
    const last = new Map<string, number>();
    for (const { name, body } of browser.heard) {
      const said = world.saidBy(body?.from, body?.n);
      if (name !== 'ice-candidate' || !body || !said || wasAhead(said, world)) continue;
      const of = `${body.about} ${body.from}`;
      if ((last.get(of) ?? -1) >= body.n)
        faults.push(`${browser.name} heard candidate ${body.from}#${body.n} late or twice`);
      last.set(of, body.n);
    }
    faults.push(...missing(world, browser));
  }
  return faults;
}

function missing(world: World, browser: Browser): string[] {
  if (!world.isConnected(browser)) return [];
  return [...browser.believes.values()].flatMap(({ about, phase }) => {
    const call = world.calls.get(about);
    if (!call?.path || call.disturbed || phase !== 'connected') return [];
    const others = world.browsers.filter(
      (other) => other.user !== browser.user && other.believes.get(call.conversationId)?.about === about,
    );
    const heard = new Set(browser.heard.filter(isCandidate).map(({ body }) => `${body?.from}#${body?.n}`));
    return others.flatMap(({ said, believes }) =>
      believes.get(call.conversationId)?.phase !== 'connected'
        ? []
        : said
            .filter((s) => s.name === 'ice-candidate' && s.about === about && !isAhead(s, call.offer))
            .filter((s) => !heard.has(`${s.device}#${s.n}`))
            .map((s) => `${browser.name} never heard candidate ${shown(s)}`),
    );
  });
}

const isCandidate = ({ name }: { name: string; body?: Body | undefined }): boolean => name === 'ice-candidate';

/** Whoever is in at some share is in at every larger one, whoever offers, whenever, and on whichever instance. */
function canary(world: World): string[] {
  const least = new Map<string, number>();
  const most = new Map<string, number>();
  for (const { said, decision, table } of world.fates.values()) {
    const drawn = table.route('/', 'call-offer').canary;
    if (said.name !== 'call-offer' || decision.because !== 'canary' || drawn === null) continue;
    const { conversationId, user } = said;
    const { percent: share, exclude } = drawn;
    const lists = [drawn.conversations, drawn.users, exclude.conversations, exclude.users];
    // Lists say of some what the share does not.
    if (lists.some((list) => list.includes(conversationId) || list.includes(user))) continue;
    if (decision.path === 'new') least.set(conversationId, Math.min(share, least.get(conversationId) ?? 100));
    else most.set(conversationId, Math.max(share, most.get(conversationId) ?? 0));
  }
  return [...least].flatMap(([conversationId, share]) => {
    const out = most.get(conversationId) ?? -1;
    return out < share ? [] : [`${conversationId} is in at ${share} % and out at ${out} %`];
  });
}
