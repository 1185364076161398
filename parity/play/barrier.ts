// Barriers: how it is proven, without waiting, that whatever was under way has arrived. A device sends events that change
// nothing and are acknowledged on each path, behind everything it sent before. Knows nothing of scenarios.
import type { Connection } from './connection.js';
import type { Device } from './device.js';
import { within } from './problem.js';

export interface BarrierOptions {
  /** Acknowledged by the backend in the namespace `/`, changing nothing: it travels the path of everything that is not a call. */
  readonly event: string;
  /** A conversation that nobody is in: a candidate for it is acknowledged and forgotten on whichever path calls travel. */
  readonly conversation: string;
  readonly patienceMs: number;
  /** Where several instances serve: what one of them had for another has arrived there. */
  readonly between?: (() => Promise<void>) | undefined;
}

/**
 * One round trip on each path. `lookup` adds an offer for that same conversation: it is refused after the membership was
 * looked up, so it comes back behind an earlier offer of this device.
 */
export async function barrier(device: Device, options: BarrierOptions, lookup = false): Promise<void> {
  const { spec } = device;
  const connection: Connection | undefined = device.connections.at(-1);
  if (!connection?.active) return;
  const { conversation, patienceMs } = options;
  const asked: Promise<unknown>[] = [];
  const event = spec.barrier ?? (spec.namespace === '/' ? options.event : undefined);
  if (event !== undefined) asked.push(connection.ask(event, []));
  if (spec.barrier === undefined) {
    asked.push(connection.ask('ice-candidate', [{ conversationId: conversation, iceCandidate: 'parity' }]));
    if (lookup) asked.push(connection.ask('call-offer', [{ conversationId: conversation, offer: 'parity' }]));
  }
  await within(patienceMs, `${spec.name}'s barrier is acknowledged`, Promise.all(asked));
}

/** What was sent to anybody before now is there: one round of barriers, on both sides of one between the instances. */
export async function arrived({ devices, barrier: options }: Barriers): Promise<void> {
  const round = () => Promise.all([...devices.values()].map((device) => barrier(device, options)));
  await round();
  if (!options.between) return;
  await options.between();
  await round();
}

interface Barriers {
  readonly devices: ReadonlyMap<string, Device>;
  readonly barrier: BarrierOptions;
}

/** Most rounds in a row that bring something new; each ends as soon as two rounds bring nothing. */
const mostRounds = 50;

/** Rounds of barriers of all devices until two in a row have brought nothing to anybody. */
export async function quiesce(devices: readonly Device[], options: BarrierOptions): Promise<void> {
  const count = () => devices.reduce((sum, { entries }) => sum + entries.length, 0);
  let quiet = 0;
  for (let round = 0; quiet < 2 && round < mostRounds; round++) {
    const before = count();
    await Promise.all(devices.map((device) => barrier(device, options, device.lookingUp)));
    if (options.between) {
      await options.between();
      await Promise.all(devices.map((device) => barrier(device, options)));
    }
    quiet = count() === before ? quiet + 1 : 0;
  }
  for (const device of devices) device.lookingUp = false;
}

/**
 * What one device sent without asking for an acknowledgement has been served, and its effects are on their way. `behind`: a
 * conversation whose events may wait for one another where they travel on two paths.
 */
export async function settle(device: Device, options: BarrierOptions, behind?: string): Promise<void> {
  const connection = device.connections.at(-1);
  if (behind !== undefined && connection?.active) {
    const what = `${device.spec.name}'s barrier behind its own events is refused`;
    await within(options.patienceMs, what, connection.askBehind(behind));
  }
  for (let round = 0; round < 2; round++) await barrier(device, options, device.lookingUp);
  device.lookingUp = false;
}
