// What differences between two tables mean, in sentences for operators: who moves where, by which share and by which list, and
// what is only set otherwise. Knows no live call and no HTTP; who is connected it asks.
import { isDeepStrictEqual } from 'node:util';
import type { Difference } from '../routing/change.js';
import type { Group, GroupRoute, TableJson } from '../routing/route.js';
import { setCommand } from '../routing/set-command.js';

/** Who is connected, as far as a sentence tells. */
export interface Present {
  usersIn(namespaces: readonly string[]): number;
  isIn(ns: string, user: string): boolean;
}

/** Ways in which routes differ that get sentences of their own; the table has up to three for each of its namespaces. */
const MOST_WAYS = 6;

/** One sentence each, without those about live calls; `differences` are not empty. */
export function differenceLines(differences: readonly Difference[], present: Present): string[] {
  const moving = sameWays(differences.filter(moves), ({ before, after }) => [placeOf(before), placeOf(after)]);
  const lines = moving
    .slice(0, MOST_WAYS)
    .flatMap((alike) => movingLines(alike, present, moving.length > 1 ? `${named(alike)}: ` : ''));
  if (moving.length > MOST_WAYS) lines.push(`and moves otherwise in ${moving.length - MOST_WAYS} more ways`);
  if (moving.length === 0) lines.push('moves nobody: what is served where stays as it is');
  return [...lines, ...settingLines(differences)];
}

/** Whether calls that begin afterwards may go elsewhere than before. */
export function moves({ before, after }: Difference): boolean {
  const [from, to] = [placeOf(before), placeOf(after)];
  if (from.share !== to.share) return true;
  if (from.share === 0 || from.share === 100) {
    // Lists that say what the share says anyway move nobody.
    const which = from.share === 0 ? (['users', 'conversations'] as const) : (['noUsers', 'noConversations'] as const);
    return which.some((list) => !sameList(from[list], to[list]));
  }
  return from.salt !== to.salt || LISTS.some((list) => !sameList(from[list], to[list]));
}

/** Calls of the new path are among those that would no longer go there: the change takes something back. */
export function takesFromNew({ group, before, after }: Difference): boolean {
  if (group !== 'call-lifecycle') return false;
  const [from, to] = [placeOf(before), placeOf(after)];
  if (from.share === 0 && from.users.length === 0 && from.conversations.length === 0) return false;
  if (to.share < from.share) return true;
  const lost = (list: 'users' | 'conversations') => to.share < 100 && added(to[list], from[list]).length > 0;
  const barred = (list: 'noUsers' | 'noConversations') => added(from[list], to[list]).length > 0;
  const redrawn = from.share > 0 && to.share < 100 && from.salt !== to.salt;
  return redrawn || lost('users') || lost('conversations') || barred('noUsers') || barred('noConversations');
}

/**
 * Where the lifecycle goes back, wholly or in part, and relays of its namespace don't: they begin to be served here for calls of
 * the legacy's, which whoever takes calls back hardly means. `after`: the whole table.
 */
export function peeledLines(differences: readonly Difference[], { namespaces }: TableJson): string[] {
  const left = differences.flatMap((difference) => {
    const routes = namespaces[difference.ns];
    const relays = RELAYS.filter(([group]) => routes && routes[group].mode !== 'legacy');
    return takesFromNew(difference) && relays.length > 0 ? [{ ...difference, relays }] : [];
  });
  const ways = sameWays(left, ({ after, relays }) => [after.mode === 'legacy', relays]);
  return ways.map((alike) => {
    const [{ ns, after, relays }] = alike as [(typeof left)[number]];
    const targets = after.mode === 'legacy' ? (['calls'] as const) : relays.map(([group]) => group);
    const commands = targets.map((target) => setCommand(ns, target, { mode: 'legacy' }));
    const what = relays.map(([, text]) => text).join(' and ');
    const where = alike.length > 1 ? ` in ${alike.length} namespaces` : ns === '/' ? '' : ` in ${ns}`;
    const told = `${what} of calls that the legacy then owns${where} are still served here (peeled)`;
    if (alike.length > 1 || commands.includes(null)) return `${told}; set ${targets.join(' and ')} to legacy there too`;
    const takes =
      after.mode === 'legacy' ? 'takes all back' : commands.length > 1 ? 'leave them to it' : 'leaves them to it';
    return `${told}; ${commands.map((command) => `"${command}"`).join(' and ')} ${takes}`;
  });
}
const RELAYS: readonly (readonly [Group, string])[] = [
  ['ice-candidate', 'candidates'],
  ['call-renegotiation', 'renegotiations'],
];

/** Those all on the legacy differ in nothing else; who is connected tells a name that no client uses. */
export function namespaceLines({ named, dropped }: NamespaceNames, { usersIn }: Pick<Present, 'usersIn'>): string[] {
  const lines: string[] = [];
  if (named.length > 0) {
    lines.push(`adds ${namespacesText(named)} to the table; ${counted(usersIn(named), 'connected user')} there`);
  }
  if (dropped.length > 0) {
    const goes = dropped.length > 1 ? 'all of them go' : 'all of it goes';
    lines.push(`removes ${namespacesText(dropped)} from the table: ${goes} to the legacy`);
  }
  return lines;
}
export interface NamespaceNames {
  readonly named: readonly string[];
  readonly dropped: readonly string[];
}
export function namespaceNames(before: TableJson, after: TableJson): NamespaceNames {
  const [was, is] = [before, after].map(({ namespaces }) => Object.keys(namespaces)) as [string[], string[]];
  return { named: added(was, is), dropped: added(is, was) };
}
const namespacesText = (all: readonly string[]): string => {
  const more = all.length > MOST_NAMED ? ` and ${all.length - MOST_NAMED} more` : '';
  return `the ${all.length === 1 ? 'namespace' : 'namespaces'} ${all.slice(0, MOST_NAMED).join(', ')}${more}`;
};
/** A table may name 200. */
const MOST_NAMED = 5;

/** A route as what it takes: `legacy` is a share of 0, `new` one of 100, each without lists. */
interface Place {
  readonly share: number;
  readonly salt: string;
  readonly users: readonly string[];
  readonly conversations: readonly string[];
  readonly noUsers: readonly string[];
  readonly noConversations: readonly string[];
}
const LISTS = ['users', 'conversations', 'noUsers', 'noConversations'] as const;

function placeOf({ mode, canary }: GroupRoute): Place {
  const { percent, salt, users, conversations, exclude } = canary ?? NO_CANARY;
  const share = mode === 'canary' ? percent : mode === 'new' ? 100 : 0;
  return { share, salt, users, conversations, noUsers: exclude.users, noConversations: exclude.conversations };
}
const NO_CANARY = { percent: 0, salt: '', users: [], conversations: [], exclude: { users: [], conversations: [] } };

function movingLines(alike: readonly Difference[], present: Present, label: string): string[] {
  const [{ before, after }] = alike as [Difference];
  const [from, to] = [placeOf(before), placeOf(after)];
  const namespaces = [...new Set(alike.map(({ ns }) => ns))];
  const isIn = (user: string) => namespaces.some((ns) => present.isIn(ns, user));
  // Of all that are on new, those on the list stay there.
  const stay = from.share === 100 ? to.users : [];
  const who = counted(present.usersIn(namespaces) - stay.filter(isIn).length, 'connected user');
  const share = shareLine(from, to, who);
  const lines = share === null ? [] : [`${share}: ${whatMoves(alike)}`];
  if (from.salt !== to.salt && between(from.share) && between(to.share)) {
    lines.push('draws the share anew: other conversations are in it');
  }
  // Where all go one way, the lists of before are of no use any more, and need no sentence.
  const ends = to.share === 100 || (after.mode === 'legacy' && from.share > 0);
  for (const [list, text] of LIST_TEXTS) {
    const more = added(from[list], to[list]);
    const less = ends ? [] : added(to[list], from[list]);
    const users = list === 'users' || list === 'noUsers';
    if (more.length > 0 && list === 'users' && stay.length > 0)
      lines.push(`leaves ${listed(more, users, isIn)} on new: ${text}`);
    else if (more.length > 0) lines.push(`puts ${listed(more, users, isIn)} on ${text}`);
    if (less.length > 0) lines.push(`takes ${listed(less, users, isIn)} off ${text}`);
  }
  return lines.map((line) => label + line);
}
const LIST_TEXTS = [
  ['users', "the canary's list"],
  ['conversations', "the canary's list"],
  ['noUsers', 'the list of those that are never in the canary'],
  ['noConversations', 'the list of those that are never in the canary'],
] as const;

function shareLine({ share: from }: Place, { share: to }: Place, who: string): string | null {
  const their = `the conversations of ${who}`;
  if (from === to) return null;
  if (to === 100) return from === 0 ? `moves ${who} to new` : `moves the other ${rest(from)} % of ${their} to new`;
  if (to === 0)
    return from === 100 ? `moves ${who} to legacy` : `takes the canary's ${from} % of ${their} back to legacy`;
  if (from === 0) return `takes ${to} % of ${their} into the canary`;
  if (from === 100) return `leaves ${to} % of ${their} on new and moves the others to legacy`;
  return to > from
    ? `raises the canary from ${from} % to ${to} % of ${their}`
    : `lowers the canary from ${from} % to ${to} % of ${their}, and moves the others back to legacy`;
}

/** A relay's own route is about calls that the legacy owns. */
function whatMoves(alike: readonly Difference[]): string {
  if (alike.some(({ group }) => group === 'call-lifecycle')) return 'calls that they begin from now on';
  return `${groupsOf(alike)} of calls that they begin from now on and the legacy owns`;
}

function listed(list: readonly string[], users: boolean, isIn: (user: string) => boolean): string {
  if (!users) return counted(list.length, 'conversation');
  return `${counted(list.length, 'user')} (${list.filter(isIn).length} connected)`;
}

function settingLines(differences: readonly Difference[]): string[] {
  const said = new Map<string, Difference[]>();
  const say = (text: string, difference: Difference) => said.set(text, [...(said.get(text) ?? []), difference]);
  for (const difference of differences) {
    const { before, after } = difference;
    if (!before.sole && after.sole) say('sole from now on: what was left to the legacy is refused here', difference);
    if (before.sole && !after.sole) say('no longer sole: what can not be served here goes to the legacy', difference);
    if (before.mode === after.mode && before.fallback !== after.fallback) {
      const where = after.fallback === 'legacy' ? 'goes to the legacy' : 'is refused';
      say(`while the new path is unwell, a new call ${where}`, difference);
    }
    if (!isDeepStrictEqual(before.guard, after.guard)) {
      say(
        after.guard === null ? 'no guard' : before.guard === null ? 'a guard' : 'other limits of the guard',
        difference,
      );
    }
  }
  const most = [...said].slice(0, MOST_WAYS);
  return most.map(([text, alike]) => `${named(alike)}: ${text}`);
}

/** Those that differ in the same way stand together. */
function sameWays<T extends Difference>(all: readonly T[], way: (difference: T) => unknown): T[][] {
  const ways = new Map<string, T[]>();
  for (const difference of all) {
    const key = JSON.stringify(way(difference));
    const alike = ways.get(key);
    if (alike) alike.push(difference);
    else ways.set(key, [difference]);
  }
  return [...ways.values()];
}

const groupsOf = (alike: readonly Difference[]): string => [...new Set(alike.map(({ group }) => group))].join(', ');
/** `ice-candidate, call-renegotiation in /calls`. */
function named(alike: readonly Difference[]): string {
  const namespaces = [...new Set(alike.map(({ ns }) => ns))];
  const [first = '/'] = namespaces;
  if (namespaces.length === 1) return groupsOf(alike) + (first === '/' ? '' : ` in ${first}`);
  return `${groupsOf(alike)} in ${namespaces.length} namespaces`;
}

const between = (share: number): boolean => share > 0 && share < 100;
const rest = (share: number): number => Number((100 - share).toFixed(2));
export const counted = (n: number, what: string): string => `${n} ${what}${n === 1 ? '' : 's'}`;

/** Of `to`: what is not in `from`. */
function added(from: readonly string[], to: readonly string[]): readonly string[] {
  const known = new Set(from);
  return to.filter((one) => !known.has(one));
}
const sameList = (a: readonly string[], b: readonly string[]): boolean =>
  added(a, b).length === 0 && added(b, a).length === 0;
