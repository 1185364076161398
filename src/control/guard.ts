// The guard: watches how the new path fares with each event, and takes a group of events back to the legacy, as a version of
// its own, where a limit of its route is crossed. Knows no calls and no packets, only what is signalled of them.
import type { Clock, Timer } from '../base/clock.js';
import { refusals } from '../call/refusals.js';
import { differences, type RouteVersion } from '../routing/change.js';
import { type Group, groupNames } from '../routing/route.js';
import type { Signals } from '../telemetry/signals.js';
import type { RouteControl } from './control.js';
import {
  calmed,
  type Guarded,
  type GuardState,
  keyOf,
  limitsOf,
  stateOf,
  succeed,
  type Tripped,
  trippedBy,
  verdictsOf,
  worstOf,
} from './guarded.js';
import { type Figures, figuresOf, readFigures } from './summed.js';
import type { SlidingWindow } from './window.js';

/** The instances that share the routes, where there are several. */
export interface GuardedInstances {
  /** What the living ones but this one have told of themselves; `guard` of it is what `figures` answered there. */
  others(): readonly Readonly<Record<string, unknown>>[];
  /** Whether this one acts for all. */
  leads(): boolean;
  /** Whether what they share can be reached. While not, the new path refuses everything, which says nothing of the path. */
  well(): boolean;
}

export interface GuardView {
  /** Each group of each namespace of the table in force. */
  states(): readonly GuardState[];
}

const lookEveryMs = 1_000;
/** What instances share is back: what was asked meanwhile is refused until then. */
const quietMs = 2_000;
/** Versions looked through at a start for groups that are tripped: an operator who made so many since has acted. */
const mostVersions = 1_000;

/**
 * Own refusals that say nothing of how the new path is. `answer-the-rejoin` is how two rejoins at once are sorted out (accepted
 * difference 4), and after a restart of the legacy half of all rejoins end so. `token-expired` is about one browser's token and
 * `overflow` about what one browser sent. `internal` is counted where a fault is signalled: a payload nested too deep gets that
 * refusal as well, and no browser may trip the guard with one.
 */
const notOfThePath = new Set(
  [refusals.answerTheRejoin, refusals.tokenExpired, refusals.overflow, refusals.internal].map(({ code }) => code),
);
const ours: ReadonlySet<string> = new Set(
  Object.values(refusals)
    .filter(({ own, code }) => own && !notOfThePath.has(code))
    .map(({ code }) => code),
);

export class Guard implements GuardView {
  /** What the guard counts; a lookup and a few additions for each. */
  readonly signals: Partial<Signals>;
  readonly #clock: Clock;
  #guarded = new Map<string, Guarded>();
  /** The windows that count an event, by namespace and event. */
  #counting = new Map<string, ReadonlyMap<string, readonly SlidingWindow[]>>();
  /** Groups that are being taken back, and whether that was told. */
  readonly #flipping = new Map<string, { told: boolean }>();
  #control: RouteControl | undefined;
  #told: Pick<Signals, 'guardTripped' | 'internalError'> | undefined;
  #instances: GuardedInstances | undefined;
  /** Nothing counts before. */
  #quietUntil = 0;
  readonly #read = new WeakMap<object, Figures | undefined>();
  #next: Timer | undefined;
  #unsubscribe: () => void = () => undefined;
  #closed = false;

  constructor({ clock }: { readonly clock: Clock }) {
    this.#clock = clock;
    const each = (ns: string, event: string, count: (window: SlidingWindow, now: number) => void): void => {
      const windows = this.#counting.get(ns)?.get(event);
      if (!windows) return;
      const now = clock.now();
      if (this.#quiet(now)) return;
      for (const window of windows) count(window, now);
    };
    this.signals = {
      decided(event, { path, because }, ns, whose) {
        if (path === 'new') each(ns, event, (window, now) => window.sample(now, because === 'peeled'));
        // The legacy has it only since the new path was unwell, which the canary hides from its users but not from us.
        else if (because === 'fallback') {
          each(ns, event, (window, now) => {
            // Of a call that is served here only offers are left to the legacy.
            window.sample(now, event !== 'call-offer');
            window.refusal(now, whose);
          });
        }
      },
      refused(event, code, ns, whose) {
        if (ours.has(code)) each(ns, event, (window, now) => window.refusal(now, whose));
      },
      served: (event, ms, ns, whose) => each(ns, event, (window, now) => window.served(now, ms, whose)),
      internalError(_where, _error, about) {
        if (about) each(about.ns, about.event, (window, now) => window.error(now, about.whose));
      },
    };
  }

  /**
   * Guards what is in force there from now on, and looks once a second. Groups that the log says were tripped, and that no
   * operator changed since, are tripped still. `instances`: figures are summed over them, and one takes groups back for all.
   */
  async watch(
    control: RouteControl,
    told: Pick<Signals, 'guardTripped' | 'internalError'>,
    instances?: GuardedInstances,
  ): Promise<void> {
    this.#control = control;
    this.#instances = instances;
    this.#told = told;
    const touched = new Set<string>();
    this.#unsubscribe = control.onChange((version) => {
      for (const { ns, group } of differences(version.before, version.after)) touched.add(keyOf(ns, group));
      this.#changed(version);
    });
    this.#follow(new Map());
    this.#lookLater();
    const tripped = new Map<string, Tripped | null>();
    const versions = await control.history(mostVersions).catch((error: unknown) => {
      // What can't be read is told by the log's own signal when it is asked for; the routes in force are guarded all the same.
      told.internalError('guard', error);
      return [];
    });
    // What was before the first trip says nothing.
    for (const version of versions.slice(0, versions.findLastIndex(({ kind }) => kind === 'guard') + 1)) {
      for (const { ns, group } of differences(version.before, version.after)) {
        const key = keyOf(ns, group);
        if (!touched.has(key) && !tripped.has(key)) tripped.set(key, trippedBy(version));
      }
    }
    this.#follow(tripped);
  }

  states(): readonly GuardState[] {
    const now = this.#clock.now();
    return [...this.#guarded.values()].map((guarded) => stateOf(guarded, () => this.#others(guarded.since), now));
  }

  /** What this instance has counted, for the others to add to theirs: JSON under 3 KiB. */
  figures(): unknown {
    const watched = [...this.#guarded.values()].flatMap(({ ns, group, windows }) =>
      [...windows].map(([event, window]) => ({ ns, group, event, window })),
    );
    return figuresOf(this.#control?.current.version ?? 0, watched, this.#clock.now());
  }

  /** Takes back what crossed a limit. Runs once a second by itself. */
  look(): void {
    const now = this.#clock.now();
    const leads = this.#instances?.leads() ?? true;
    for (const [key, guarded] of this.#guarded) {
      const { route, tripped, ns, group } = guarded;
      const limits = limitsOf(guarded);
      if (!limits || this.#flipping.has(key)) continue;
      if (tripped && !route.sole) continue;
      const others = this.#others(guarded.since);
      const worst = worstOf(verdictsOf(guarded, others, limits, now));
      if (tripped) this.#guarded.set(key, { ...guarded, tripped: calmed(tripped, worst, limits, now) });
      else if (worst?.state === 'over') {
        const over = others.length > 0 ? `, over ${others.length + 1} instances` : '';
        if (route.sole) this.#alarm(guarded, worst.reason + over, now, leads);
        // One at a time in a namespace: with the lifecycle its relays go back as well.
        else if (leads && !this.#flippingIn(ns)) this.#flip(ns, group, worst.reason + over);
      }
    }
  }

  close(): void {
    this.#closed = true;
    this.#next?.cancel();
    this.#unsubscribe();
  }

  #lookLater(): void {
    if (this.#closed) return;
    this.#next = this.#clock.after(lookEveryMs, () => {
      try {
        this.look();
      } catch (error) {
        this.#told?.internalError('guard', error);
      }
      this.#lookLater();
    });
  }

  #quiet(now: number): boolean {
    if (!this.#instances) return false;
    if (!this.#instances.well()) this.#quietUntil = now + quietMs;
    return now < this.#quietUntil;
  }

  /** What the others have counted under the routes of that version or a later one. */
  #others(since: number): readonly Figures[] {
    const figures = this.#instances?.others().map((info) => {
      if (!this.#read.has(info)) this.#read.set(info, readFigures(info.guard));
      return this.#read.get(info);
    });
    return (
      (figures?.filter((read) => read !== undefined && read.version >= since) as readonly Figures[] | undefined) ?? []
    );
  }

  #flippingIn(ns: string): boolean {
    return groupNames.some((group) => this.#flipping.has(keyOf(ns, group)));
  }

  #flip(ns: string, group: Group, reason: string): void {
    const key = keyOf(ns, group);
    this.#flipping.set(key, { told: false });
    this.#control
      ?.change({ kind: 'guard', ns, group }, { actor: 'guard', via: 'guard', reason })
      .then((outcome) => {
        // `unchanged`: somebody was faster. Anything else leaves it where it is, and the next look tries again.
        if (outcome.kind !== 'applied' && outcome.kind !== 'unchanged') {
          this.#told?.internalError('guard', new Error(`${group} in ${ns} did not go back: ${outcome.kind}`));
        }
      })
      .catch((error: unknown) => this.#told?.internalError('guard', error))
      .finally(() => this.#flipping.delete(key));
  }

  /** The legacy serves a `sole` group no more: all that can be done is to tell, which one instance does. */
  #alarm(guarded: Guarded, reason: string, now: number, tells: boolean): void {
    const { ns, group } = guarded;
    const tripped = { at: new Date(now).toISOString(), reason, wellSince: null };
    this.#guarded.set(keyOf(ns, group), { ...guarded, tripped });
    if (tells) this.#told?.guardTripped(ns, group, reason, false);
  }

  #changed(version: RouteVersion): void {
    const by = trippedBy(version);
    const changed = differences(version.before, version.after);
    this.#follow(new Map(changed.map(({ ns, group }) => [keyOf(ns, group), by] as const)));
    if (!by) return;
    // It is in force; that it is in the log as well may take longer.
    for (const { ns, group } of changed) {
      const flip = this.#flipping.get(keyOf(ns, group));
      if (!flip || flip.told) continue;
      flip.told = true;
      this.#told?.guardTripped(ns, group, by.reason, true);
    }
  }

  /** Takes over the table in force. `tripped`: groups that were changed, and what of. */
  #follow(tripped: ReadonlyMap<string, Tripped | null>): void {
    const { table } = this.#control as RouteControl;
    const version = this.#instances ? (this.#control?.current.version ?? 0) : 0;
    const next = new Map<string, Guarded>();
    const counting = new Map<string, Map<string, SlidingWindow[]>>();
    for (const [ns, routes] of Object.entries(table.toJSON().namespaces)) {
      const events = new Map<string, SlidingWindow[]>();
      for (const group of groupNames) {
        const key = keyOf(ns, group);
        const guarded = succeed(this.#guarded.get(key), ns, group, routes[group], tripped.get(key), version);
        next.set(key, guarded);
        for (const [event, window] of guarded.windows) {
          const windows = events.get(event);
          if (windows) windows.push(window);
          else events.set(event, [window]);
        }
      }
      if (events.size > 0) counting.set(ns, events);
    }
    this.#guarded = next;
    this.#counting = counting;
  }
}
