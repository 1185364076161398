// Where a candidate goes while a call waits for an answer: into the session's buffer, at most 256 of them. Knows nothing of
// what a candidate says.
import type { Effect } from './session.js';

/** A browser gathers 5 to 30 candidates for an offer; 256 leaves room for every odd one and bounds a session's size. */
export const MAX_CANDIDATES = 256;

/**
 * Bytes of the messages whose candidates wait on one session, whoever fills it. A browser's are some 200 bytes each; all that
 * waits goes out in one acknowledgement, which must stay below the 1 MiB that we put in for a browser.
 */
export const MAX_BUFFERED_BYTES = 512 * 1024;

export interface Buffered {
  /** The very same list where nothing fitted. */
  readonly candidates: readonly unknown[];
  /** One `candidate-dropped` for each that did not fit. */
  readonly effects: readonly Effect[];
}

const full: Effect = Object.freeze({ kind: 'candidate-dropped', why: 'buffer-full' });

/** The buffer with `more` appended, oldest first; what is over the bound is dropped. */
export function buffer(candidates: readonly unknown[], more: readonly unknown[]): Buffered {
  const fit = more.slice(0, MAX_CANDIDATES - candidates.length);
  const effects = Array.from({ length: more.length - fit.length }, () => full);
  return { candidates: fit.length === 0 ? candidates : Object.freeze([...candidates, ...fit]), effects };
}
