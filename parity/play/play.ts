// Plays one scenario against one target: signs its parties in, takes the steps one after another, proves that nothing more
// comes, and returns what each device received, normalised. Knows nothing of expectations or of other paths.
import { normalise } from '../compare/normalise.js';
import type { DeviceSpec, Play, Transport } from '../scenario.js';
import type { Identity, SignedIn } from '../targets/identity.js';
import { arrived, type BarrierOptions, quiesce } from './barrier.js';
import type { Between } from './between.js';
import { Connection } from './connection.js';
import { Device } from './device.js';
import { ours } from './ours.js';
import { Problem, within } from './problem.js';
import { takeStep } from './steps.js';
import type { Entry, Transcripts } from './transcript.js';
import type { Witnesses } from './witness.js';

/** Where a scenario is played. */
export interface Target {
  readonly path: string;
  /** Without a slash at the end. */
  readonly url: string;
  /** Where several instances serve: of each of them. Parties are on different ones, and so are the devices of one. */
  readonly urls?: readonly string[];
  readonly between?: Between;
  readonly witnesses: Witnesses;
  /** Changes the call routes and waits until they are in force; absent where that can't be done. */
  flip?(to: 'legacy' | 'new'): Promise<void>;
  /** Kills the backend and starts it again; absent where that can't be done. */
  restart?(): Promise<void>;
}

export interface PlayOptions {
  readonly transport: Transport;
  readonly identity: Identity;
  readonly rejoinTimeoutMs: number;
  readonly barrierEvent: string;
  /** Longest wait for an acknowledgement or an event. */
  readonly patienceMs: number;
  /** Besides the barriers: so long nothing may come at the end; for targets of several instances. */
  readonly quietMs: number;
  /** Decides the order within `together`. */
  readonly random: () => number;
  /** Makes the ids of this play its own. */
  readonly suffix: string;
}

export interface Played {
  readonly transcripts: Transcripts;
  /** Why it could not be played to its end. */
  readonly problem: string | undefined;
  readonly ms: number;
}

/** One play under way. */
export interface Stage {
  readonly target: Target;
  readonly options: PlayOptions;
  readonly barrier: BarrierOptions;
  readonly devices: ReadonlyMap<string, Device>;
  readonly users: ReadonlyMap<string, SignedIn>;
  readonly words: ReadonlyMap<string, string>;
  /** Which witness a device has. */
  slot(device: string): number;
  connect(device: Device, transport?: Transport, token?: DeviceSpec['token']): Promise<void>;
}

export async function play(scenario: Play, target: Target, options: PlayOptions): Promise<Played> {
  const started = performance.now();
  const from = Date.now();
  const users = new Map<string, SignedIn>();
  const ids = new Set<string>();
  const keep = (entry: Entry) => ours(entry, scenario.onlyOurs, ids);
  const devices = new Map(scenario.devices.map((spec) => [spec.name, new Device(spec, keep)]));
  const words = new Map<string, string>();
  let problem: string | undefined;
  try {
    const { identity, suffix } = options;
    for (const party of new Set(scenario.devices.map((device) => device.party))) {
      const user = await identity.signIn(`${party}-${suffix}`, 'valid');
      users.set(party, user);
      ids.add(user.id);
      words.set(party, user.id);
    }
    for (const [name, members] of Object.entries(scenario.conversations)) {
      words.set(name, await identity.conversation(members.map((member) => users.get(member) as SignedIn)));
    }
    words.set('nobody', `parity-nobody-${suffix}`);
    const stage = stageOf(scenario, target, options, devices, users, words);
    for (const device of devices.values()) if (!device.spec.later) await stage.connect(device);
    await arrived(stage);
    for (const step of scenario.steps) await takeStep(step, stage);
    const later = [...devices.values()].flatMap((device) => device.later);
    await within(options.patienceMs, 'what was asked for is acknowledged', Promise.all(later));
    await quiesce([...devices.values()], stage.barrier);
    if (options.quietMs > 0) {
      await new Promise((resolve) => setTimeout(resolve, options.quietMs));
      await quiesce([...devices.values()], stage.barrier);
    }
  } catch (error) {
    // One play that fails in an unforeseen way (an answer that is no JSON, a request broken off) is one that differs.
    const { name, message, cause } = error as Error & { cause?: { code?: string } };
    problem =
      error instanceof Problem ? message : `${name}: ${message}${cause?.code === undefined ? '' : ` (${cause.code})`}`;
  }
  const transcripts = Object.fromEntries([...devices].map(([name, device]) => [name, [...device.entries]]));
  const names = new Map<string, string>();
  for (const [word, id] of words) names.set(id, word);
  for (const [name, { connections }] of devices) {
    for (const [i, { everId, options: given }] of connections.entries()) {
      names.set(everId, `socket:${name}${i === 0 ? '' : `#${i + 1}`}`);
      // A token need not look like one: QA's own command may print any.
      names.set(given.token ?? '', 'token');
    }
  }
  names.delete('');
  const known = { names, from, to: Date.now() };
  await Promise.all([...devices.values()].flatMap(({ connections }) => connections.map((one) => one.close())));
  return { transcripts: normalise(transcripts, known), problem, ms: performance.now() - started };
}

function stageOf(
  scenario: Play,
  target: Target,
  options: PlayOptions,
  devices: ReadonlyMap<string, Device>,
  users: ReadonlyMap<string, SignedIn>,
  words: ReadonlyMap<string, string>,
): Stage {
  const { identity, patienceMs, suffix } = options;
  const slots = scenario.devices.map(({ name }) => name);
  const { between } = target;
  return {
    target,
    options,
    devices,
    users,
    words,
    barrier: {
      event: options.barrierEvent,
      conversation: `parity-own-nobody-${suffix}`,
      patienceMs,
      between: between && (() => between.round()),
    },
    slot: (device) => slots.indexOf(device),
    async connect(device, transport, token) {
      const { spec } = device;
      const last = device.connections.at(-1);
      if (last?.connected && !last.silenced) {
        throw new Problem(
          `${spec.name} is connected; drop it first ("silence" leaves the server unaware), or use a second device`,
        );
      }
      const kind = token ?? spec.token;
      const signedIn =
        kind === 'valid' ? users.get(spec.party) : await identity.signIn(`${spec.party}-${suffix}`, kind);
      const connection = new Connection(
        {
          url: urlFor(device, scenario, target, options.random),
          namespace: spec.namespace,
          transport: transport ?? spec.transport ?? options.transport,
          token: signedIn?.token,
          retries: spec.retries,
          ackTimeout: spec.ackTimeout,
          device: spec.name,
          patienceMs,
        },
        device.note,
      );
      device.connections.push(connection);
      await connection.connect();
    },
  };
}

/** The first devices of two parties are on different instances; a device that comes back does so on any of them. */
function urlFor({ spec, connections }: Device, { devices }: Play, { url, urls }: Target, random: () => number): string {
  if (!urls) return url;
  const parties = [...new Set(devices.map(({ party }) => party))];
  const among = devices.filter(({ party }) => party === spec.party).findIndex(({ name }) => name === spec.name);
  const first = parties.indexOf(spec.party) + among;
  const n = connections.length === 0 ? first : Math.floor(random() * urls.length);
  return urls[n % urls.length] as string;
}
