// Holds the plays of one lifecycle on several paths against the contract, and against each other. Knows nothing of how they
// were played.
import { compareTranscripts, type Divergence, matchOutcomes } from '../compare/match.js';
import type { Played } from '../play/play.js';
import type { Outcome } from '../scenario.js';

export interface Difference {
  readonly path: string;
  /** What it differs from; `its end` where the play could not be ended. */
  readonly from: 'docs/calls.md' | 'the legacy path' | 'its end';
  readonly what: string;
}

/** Empty where all paths did the same, and what they should. */
export function judge(outcome: Outcome, plays: ReadonlyMap<string, Played>): Difference[] {
  const differences: Difference[] = [];
  const legacy = plays.get('legacy');
  for (const [path, { transcripts, problem }] of plays) {
    if (problem !== undefined) differences.push({ path, from: 'its end', what: problem });
    const verdict = matchOutcomes([outcome], transcripts);
    if (!verdict.ok) differences.push({ path, from: 'docs/calls.md', what: said(verdict.divergences) });
    if (path === 'legacy' || !legacy) continue;
    const apart = compareTranscripts(legacy.transcripts, transcripts);
    if (apart.length > 0) differences.push({ path, from: 'the legacy path', what: said(apart) });
  }
  return differences;
}

const said = (divergences: readonly Divergence[]): string =>
  divergences.map(({ device, at, what }) => `${device}, entry ${at + 1}: ${what}`).join('; ');

export const sentence = ({ path, from, what }: Difference): string =>
  from === 'its end' ? `${path} got stuck: ${what}` : `${path} differs from ${from}: ${what}`;
