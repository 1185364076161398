// The run as JSON, for machines: every play with its transcripts. Knows nothing of files.
import type { RunResult } from '../run.js';
import { shortened } from './shorten.js';
import { summaryOf } from './summary.js';

export function jsonReport(run: RunResult): string {
  const { counts } = summaryOf(run);
  const plays = run.results.map(
    ({ scenario, path, transport, round, status, why, ms, divergences, against, transcripts }) => ({
      scenario: scenario.name,
      about: scenario.about,
      from: `${scenario.file}:${scenario.line}`,
      path,
      transport,
      round,
      status,
      why,
      ms: Math.round(ms),
      ...(divergences.length > 0
        ? { against, divergences: divergences.map(({ device, at, what }) => ({ device, at, what })) }
        : {}),
      transcripts: shortened(transcripts),
    }),
  );
  return `${JSON.stringify({ seed: run.seed, ms: Math.round(run.ms), counts, plays }, null, 2)}\n`;
}
