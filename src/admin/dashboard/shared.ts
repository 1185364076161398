// What every part of the page is given: the API, the newest figures, whether they are fresh, and how to tell the operator
// what happened. Knows no single part.
import { createContext } from 'preact';
import { useContext, useEffect, useRef, useState } from 'preact/hooks';
import type { ChangedBody, LiveBody, StatusBody } from '../api.js';
import { type Client, problemsOf } from './client.js';
import type { Link } from './feed.js';

export interface PageState {
  readonly client: Client;
  readonly link: Link;
  /** False while nothing answers: nothing can be changed then but what takes back, which is tried all the same. */
  readonly online: boolean;
  /** Null until the first figures come. */
  readonly live: LiveBody | null;
  /** Whose token it is and what that may do; null until it is known. */
  readonly you: StatusBody['you'] | null;
  /** Online, and nobody who may only read. What takes back can be pressed all the same. */
  readonly mayChange: boolean;
  /** The API wants no token, so the operator may say a name. */
  readonly nameless: boolean;
  /** Shows a change that was made. */
  made(change: ChangedBody): void;
  /** Shows a line. */
  told(line: string): void;
}

/** Of parts that are shown with figures only. */
export interface Shared extends PageState {
  readonly live: LiveBody;
  /** The server's clock at the newest figures: ages are reckoned by it, not by this machine's. */
  readonly now: number;
}

const Context = createContext<PageState | null>(null);
export const SharedBy = Context.Provider;

export function usePage(): PageState {
  const page = useContext(Context);
  if (!page) throw new Error('outside of the page');
  return page;
}

export function useShared(): Shared {
  const page = usePage();
  if (!page.live) throw new Error('there are no figures yet');
  return { ...page, live: page.live, now: Date.parse(page.live.at) };
}

export interface Fetched<T> {
  /** What came last; stays while it is asked for again and where that fails. */
  readonly data: T | null;
  readonly problems: readonly string[];
  readonly busy: boolean;
  again(): void;
}

/** After a refusal of what is asked for only once otherwise. */
const RETRY_MS = 3_000;

/**
 * `GET path`, once more whenever `path` or `key` changes, and every `everyMs` while the page is looked at and online. What was
 * refused is asked for again. An answer that comes after a newer question is dropped.
 */
export function useFetched<T>(path: string | null, key: unknown = null, everyMs?: number): Fetched<T> {
  const { client, online } = usePage();
  const [data, setData] = useState<T | null>(null);
  const [problems, setProblems] = useState<readonly string[]>([]);
  const [busy, setBusy] = useState(false);
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    if (path === null || !online) return;
    let stale = false;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const ask = async () => {
      let againMs = everyMs;
      setBusy(true);
      try {
        const body = await client.get<T>(path);
        if (stale) return;
        setData(body);
        setProblems([]);
      } catch (error) {
        if (stale) return;
        setProblems(problemsOf(error));
        againMs ??= RETRY_MS;
      }
      setBusy(false);
      if (againMs) timer = setTimeout(next, againMs);
    };
    const next = () => {
      if (document.visibilityState === 'visible') ask();
      else document.addEventListener('visibilitychange', ask, { once: true });
    };
    ask();
    return () => {
      stale = true;
      clearTimeout(timer);
      document.removeEventListener('visibilitychange', ask);
    };
  }, [client, path, key, online, everyMs, turn]);
  return { data, problems, busy, again: () => setTurn((n) => n + 1) };
}

/** The value once it has stayed the same for `ms`. */
export function useSettled<T>(value: T, ms: number): T {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(() => value), ms);
    return () => clearTimeout(timer);
  }, [value, ms]);
  return settled;
}

let ids = 0;
/** An id of the page's own, for labels. */
export function useId(name: string): string {
  const id = useRef('');
  if (id.current === '') {
    ids += 1;
    id.current = `${name}-${ids}`;
  }
  return id.current;
}
