// Writes the reports of a run into a folder. Knows nothing of what is in them.
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { RunResult } from '../run.js';
import { htmlReport } from './html.js';
import { jsonReport } from './json.js';
import { junitReport } from './junit.js';

/** The paths that were written. */
export async function writeReports(folder: string, result: RunResult): Promise<string[]> {
  await mkdir(folder, { recursive: true });
  const reports: Record<string, string> = {
    'report.html': htmlReport(result),
    'report.json': jsonReport(result),
    'junit.xml': junitReport(result),
  };
  const written = Object.entries(reports).map(async ([name, text]) => {
    const path = join(folder, name);
    await writeFile(path, text);
    return path;
  });
  return Promise.all(written);
}
