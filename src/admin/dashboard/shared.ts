// What every part of the page is given: the API, the newest figures, whether they are fresh, and how to tell the operator
// what happened. Knows no single part.
import { createContext } from 'preact';
import { useContext, useEffect, useRef, useState } from 'preact/hooks';
import type { ChangedBody, LiveBody } from '../api.js';
import { type Client, problemsOf } from './client.js';

export interface Shared {
  readonly client: Client;
  /** False while the connection is lost: figures are old, and nothing may be changed. */
  readonly online: boolean;
  readonly live: LiveBody;
  /** The server's clock at the newest figures: ages are reckoned by it, not by this machine's. */
  readonly now: number;
  /** The API wants no token, so the operator may say a name. */
  readonly nameless: boolean;
  /** Shows a change that was made. */
  made(change: ChangedBody): void;
  /** Shows a line. */
  told(line: string): void;
}

const Context = createContext<Shared | null>(null);
export const SharedBy = Context.Provider;

export function useShared(): Shared {
  const shared = useContext(Context);
  if (!shared) throw new Error('outside of the page');
  return shared;
}

export interface Fetched<T> {
  /** What came last; stays while it is asked for again and where that fails. */
  readonly data: T | null;
  readonly problems: readonly string[];
  readonly busy: boolean;
  again(): void;
}

/**
 * `GET path`, once more whenever `path` or `key` changes, and every `everyMs` while the page is looked at and online.
 * An answer that comes after a newer question is dropped.
 */
export function useFetched<T>(path: string | null, key: unknown = null, everyMs?: number): Fetched<T> {
  const { client, online } = useShared();
  const [data, setData] = useState<T | null>(null);
  const [problems, setProblems] = useState<readonly string[]>([]);
  const [busy, setBusy] = useState(false);
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    if (path === null || !online) return;
    let stale = false;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const ask = async () => {
      setBusy(true);
      try {
        const body = await client.get<T>(path);
        if (stale) return;
        setData(body);
        setProblems([]);
      } catch (error) {
        if (stale) return;
        setProblems(problemsOf(error));
      }
      setBusy(false);
      if (everyMs) timer = setTimeout(next, everyMs);
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
