// What the thread for routes files is asked, and what it answers: values only, that pass from thread to thread. Knows no thread.
import { tableOf } from '../routing/check.js';
import { formatTable } from '../routing/format.js';
import type { TableJson } from '../routing/route.js';
import { parseRouteTable } from '../routing/table.js';

export type Job =
  | { readonly kind: 'parse'; readonly text: string; readonly file: string }
  | { readonly kind: 'format'; readonly table: TableJson };
export type Done =
  | { readonly ok: true; readonly table: TableJson }
  | { readonly ok: true; readonly text: string }
  | { readonly ok: false; readonly problems: readonly string[] };

export function work(job: Job): Done {
  if (job.kind === 'parse') {
    const parsed = parseRouteTable(job.text, job.file);
    return parsed.ok ? { ok: true, table: parsed.table.toJSON() } : parsed;
  }
  const read = tableOf(job.table);
  return read.ok ? { ok: true, text: formatTable(read.table) } : read;
}
