// What `sigfig routes …` does: reads and changes the table in force through the admin API, and shows what came of it.
// Knows nothing of flags, of the watch, or of how routes are decided.
import { readFileSync } from 'node:fs';
import { basename } from 'node:path';
import type {
  ApplyRequest,
  ChangedBody,
  ChangeRequest,
  HistoryBody,
  LegacyRequest,
  PlanBody,
  RollbackRequest,
  RoutesBody,
  SetRequest,
  StatusBody,
} from '../admin/api.js';
import type { ExitCode } from './failure.js';
import { exitCodes, Failure, usage } from './failure.js';
import type { Action, Operation } from './operate.js';
import { changedText, changesNothing, diffText, fileLines, historyText, planText, routesText } from './routes-text.js';
import { harmless } from './show.js';

export interface ChangeFlags {
  readonly reason?: string;
  readonly dryRun?: boolean;
  readonly ifVersion?: number;
}

export const listRoutes =
  ({ yaml = false }: { yaml?: boolean }): Action =>
  async (operation) => {
    const body = await operation.client.get<RoutesBody>('/api/routes', ['version', 'namespaces', 'yaml']);
    // Into a file or a pipe it goes as it is.
    const file = operation.world.terminal ? body.yaml.split('\n').map(harmless).join('\n') : body.yaml;
    operation.answer(body, () => (yaml ? file : routesText(body, operation.style)));
    if (yaml)
      for (const line of fileLines(body.fileProblems)) operation.warn(`the routes file is not in force: ${line}`);
    return exitCodes.done;
  };

export const setRoute =
  (request: Omit<SetRequest, keyof ChangeRequest>, flags: ChangeFlags): Action =>
  async (operation) => {
    const ifVersion = flags.ifVersion ?? (await inForce(operation));
    return change(operation, '/api/routes/set', { ...request, ifVersion }, flags);
  };

export const applyFile =
  (file: string, flags: ChangeFlags): Action =>
  async (operation) => {
    const request = await fileRequest(operation, file);
    const ifVersion = flags.ifVersion ?? (await inForce(operation));
    return change(operation, '/api/routes/apply', { ...request, ifVersion }, flags);
  };

/** Like diff(1): 0 the same, 1 different, 2 a file that can't be compared. */
export const diffFile =
  (file: string): Action =>
  async (operation) => {
    const request = await fileRequest(operation, file);
    const plan = await operation.client
      .post<PlanBody>('/api/routes/diff', request, ['differences', 'lines'])
      .catch((error: unknown) => {
        if (!(error instanceof Failure) || error.code !== exitCodes.refused) throw error;
        throw new Failure(exitCodes.usage, error.error, error.problems);
      });
    operation.answer(plan, () => diffText(file, plan, operation.style));
    return changesNothing(plan) ? exitCodes.done : exitCodes.refused;
  };

export const rollback =
  (version: number | undefined, endCalls: boolean | undefined, flags: ChangeFlags): Action =>
  (operation) =>
    atOnce(operation, '/api/routes/rollback', { ...given({ version }), ...given({ endCalls }) }, flags);

export const allLegacy =
  (endCalls: boolean | undefined, flags: ChangeFlags): Action =>
  (operation) =>
    atOnce(operation, '/api/routes/legacy', given({ endCalls }), flags);

export const showHistory =
  ({ limit, before }: { limit: number; before?: number }): Action =>
  async (operation) => {
    const from = before === undefined ? '' : `&before=${before}`;
    const body = await operation.client.get<HistoryBody>(`/api/routes/history?limit=${limit}${from}`, ['versions']);
    operation.answer(body, () => historyText(body, operation.style));
    return exitCodes.done;
  };

/** From the status, which is small, and which is there even where a table can't be shown. */
async function inForce({ client }: Operation): Promise<number> {
  return (await client.get<StatusBody>('/api/status', ['routes'])).routes.version;
}

/** A change of the ordinary kind: made from a version that was seen, and for a reason. */
async function change(
  operation: Operation,
  path: string,
  request: (SetRequest | ApplyRequest) & { readonly ifVersion: number },
  flags: ChangeFlags,
): Promise<ExitCode> {
  if (flags.dryRun) return dryRun(operation, path, { ...request, ...given({ reason: flags.reason }) });
  const reason = await operation.reason(flags.reason);
  const body = await operation.client
    .post<ChangedBody>(path, { ...request, reason }, CHANGED)
    .catch((error: unknown) => {
      throw error instanceof Failure && error.code === exitCodes.conflict ? withAdvice(error, flags) : error;
    });
  return made(operation, body);
}

/** Rollback and the red switch: nothing is compared and no reason is needed, so that nothing keeps them back. */
async function atOnce(
  operation: Operation,
  path: string,
  request: RollbackRequest | LegacyRequest,
  flags: ChangeFlags,
): Promise<ExitCode> {
  const whole = { ...request, ...given({ reason: flags.reason }) };
  if (flags.dryRun) return dryRun(operation, path, whole);
  return made(operation, await operation.client.post<ChangedBody>(path, whole, CHANGED));
}
const CHANGED = ['version', 'changed', 'plan', 'confirmed'] as const;

async function dryRun(operation: Operation, path: string, request: ChangeRequest): Promise<ExitCode> {
  const plan = await operation.client.post<PlanBody>(path, { ...request, dryRun: true }, ['differences', 'lines']);
  operation.answer(plan, () => planText(plan, `version ${plan.from} is like that already`, operation.style));
  return exitCodes.done;
}

function made(operation: Operation, body: ChangedBody): ExitCode {
  operation.answer(body, () => changedText(body, operation.style));
  const { instances, of } = body.confirmed;
  const { unwritten } = body;
  if (unwritten && of > 1) {
    operation.warn(
      `in force on the instance that was asked only: ${unwritten}; the other ${of - instances} go on as before until it can be, so make the change on each of them ("--admin URL")`,
    );
  } else if (unwritten) {
    operation.warn(`in force, but in memory only: ${unwritten}; it is written once the log is well again`);
  } else if (instances < of) {
    operation.warn(`confirmed by ${instances} of ${of} instances only; "sigfig status" shows who answers`);
  }
  return exitCodes.done;
}

/** The server says that it must be looked at again; which number is then to be given, only who gave one needs to know. */
function withAdvice({ code, error, problems, current }: Failure, { ifVersion }: ChangeFlags): Failure {
  const advice =
    ifVersion === undefined || current === undefined ? [] : [`with what is in force now it is --if-version ${current}`];
  return new Failure(code, error, [...problems, ...advice], current);
}

async function fileRequest({ world }: Operation, file: string): Promise<ApplyRequest> {
  try {
    // The server takes names of up to 256 characters; in lines about faults the last part of a longer one says enough.
    if (file !== '-') return { yaml: readFileSync(file, 'utf8'), file: file.length > 256 ? basename(file) : file };
    if (!world.readInput) throw new Error('there is none');
    return { yaml: await world.readInput(), file: 'stdin' };
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    throw usage(
      `can't read ${file === '-' ? 'standard input' : file} (${code ?? message}); name a routes file, or - for standard input`,
    );
  }
}

/** Without what is undefined, which the server would take for a field of no value. */
function given<T extends object>(fields: T): { [Key in keyof T]: Exclude<T[Key], undefined> } | Record<string, never> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as {
    [Key in keyof T]: Exclude<T[Key], undefined>;
  };
}
