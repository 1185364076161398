// Takes the steps of a scenario. A step is over when its effects are: an event once it is acknowledged (or a barrier has
// come back behind it), a drop once the server has noticed it. Knows nothing of expectations.
import type { Connect, DropStep, Emit, Request, Step, Together } from '../scenario.js';
import { shortTokenMs } from '../targets/identity.js';
import { type Cast, outgoing } from '../values.js';
import { arrived, barrier, quiesce, settle } from './barrier.js';
import type { Connection } from './connection.js';
import type { Device } from './device.js';
import type { Stage } from './play.js';
import { Problem, within } from './problem.js';
import type { Noticed } from './witness.js';

/** @throws Problem where it can't be taken, or its effects don't come. */
export async function takeStep(step: Step, stage: Stage): Promise<void> {
  if ('emit' in step) return emit(step, stage);
  if ('together' in step) return together(step, stage);
  if ('drop' in step) return (await prepareDrop(step, stage))();
  if ('connect' in step) return connect(step, stage);
  if ('wait' in step) return deviceOf(stage, step.at).wait(step.wait, waitMs(stage));
  if ('elapse' in step) return elapse(step.elapse, stage);
  if ('request' in step) return request(step, stage);
  if ('pause' in step) return deviceOf(stage, step.pause).live.pause();
  if ('resume' in step) return deviceOf(stage, step.resume).connection.resume();
  if ('flip' in step) {
    // On the path without a proxy there is nothing to flip; it plays the same scenario.
    if (stage.target.path === 'legacy') return;
    if (!stage.target.flip) throw new Problem('this target can not be flipped');
    return stage.target.flip(step.flip);
  }
  if ('restart' in step) {
    if (!stage.target.restart) throw new Problem('this target can not be restarted');
    return stage.target.restart();
  }
  return quiesce([...stage.devices.values()], stage.barrier);
}

export function deviceOf(stage: Stage, name: string): Device {
  const device = stage.devices.get(name);
  if (!device) throw new Problem(`there is no device ${name}`);
  return device;
}

/** Long enough for a rejoin timeout and the sweep behind it. */
const waitMs = ({ options }: Stage): number => 2 * options.rejoinTimeoutMs + options.patienceMs;

async function emit(step: Emit, stage: Stage): Promise<void> {
  const device = deviceOf(stage, step.by);
  const connection = device.live;
  const { ack = true, repeat = 1 } = step;
  const cast = castOf(stage);
  const answers: Promise<unknown>[] = [];
  let about: unknown;
  for (let n = 0; n < repeat; n++) {
    const args = step.args
      ? (outgoing(step.args, cast, n) as unknown[])
      : 'payload' in step
        ? [outgoing(step.payload, cast, n)]
        : [];
    about = (args[0] as { conversationId?: unknown } | null | undefined)?.conversationId;
    answers.push(connection.emit(step.emit, args, ack !== false));
  }
  // There the events of one call travel on two paths, or through several instances: what one of them led to may still be on its
  // way when the other answers.
  const twoPaths = stage.target.path === 'peeled' || stage.target.between !== undefined;
  if (ack === false) {
    if (step.emit === 'call-offer') device.lookingUp = true;
    const behind = twoPaths && isId(about) && device.spec.barrier === undefined ? about : undefined;
    if (!connection.paused) await settle(device, stage.barrier, behind);
  } else if (ack === 'later') {
    device.later.push(...answers);
  } else {
    const what = `${step.by}'s ${step.emit} is acknowledged`;
    await within(stage.options.patienceMs, what, Promise.all(answers));
  }
  if (twoPaths && ack !== 'later') await arrived(stage);
}

const isId = (id: unknown): id is string => typeof id === 'string' && id !== '' && id.length <= 256;

/** In an order of chance, within one turn of the event loop: every race gets its outcomes over the repeats. */
async function together(step: Together, stage: Stage): Promise<void> {
  const starts: (() => Promise<void>)[] = [];
  for (const one of step.together) {
    if ('drop' in one) starts.push(await prepareDrop(one, stage));
    else starts.push(() => takeStep(one, stage));
  }
  for (let i = starts.length - 1; i > 0; i--) {
    const j = Math.floor(stage.options.random() * (i + 1));
    [starts[i], starts[j]] = [starts[j] as () => Promise<void>, starts[i] as () => Promise<void>];
  }
  await Promise.all(starts.map((start) => start()));
}

/** What a silence left to be noticed later. */
const unnoticed = new WeakMap<Connection, Noticed>();

/** Everything up to the drop itself, so that it can happen in the same moment as something else. */
async function prepareDrop(step: DropStep, stage: Stage): Promise<() => Promise<void>> {
  const device = deviceOf(stage, step.drop);
  const connection = step.old ? device.old : device.live;
  let noticed = unnoticed.get(connection);
  if (!step.old) {
    // A witness is in calls: a namespace that has none can't prove its drops.
    if ((step.how === 'silence' || step.noticed !== false) && device.spec.namespace !== '/presence') {
      const user = stage.users.get(device.spec.party)?.id ?? '';
      noticed = await stage.target.witnesses.watch(stage.slot(step.drop), user, connection);
    }
    // Without a witness, a barrier: what was sent to the device before has reached it.
    if (!noticed) await barrier(device, stage.barrier);
    if (step.how !== 'disconnect' && step.how !== 'close') await connection.ready(stage.barrier.conversation);
  }
  return async () => {
    connection.drop(step.how);
    if (step.noticed !== false) {
      await noticed?.();
      // The witness was told; what the drop did to other calls may still be on its way to other instances.
      if (stage.target.between) for (let round = 0; round < 2; round++) await arrived(stage);
    } else if (noticed) unnoticed.set(connection, noticed);
  };
}

async function connect(step: Connect, stage: Stage): Promise<void> {
  const device = deviceOf(stage, step.connect);
  const before = device.connections.at(-1)?.options.transport ?? device.spec.transport ?? stage.options.transport;
  const transport = step.transport === 'other' ? (before === 'polling' ? 'websocket' : 'polling') : step.transport;
  await stage.connect(device, transport, step.token);
  await arrived(stage);
}

function elapse(time: number | 'token', stage: Stage): Promise<void> {
  const ms = time === 'token' ? shortTokenMs + 1_200 : time * stage.options.rejoinTimeoutMs;
  return new Promise((resolve) => setTimeout(resolve, ms));
}

async function request(step: Request, stage: Stage): Promise<void> {
  const device = deviceOf(stage, step.by);
  const cast = castOf(stage);
  const [method = 'GET', path = '/'] = String(outgoing(step.request, cast)).split(' ', 2);
  const token = stage.users.get(device.spec.party)?.token;
  const body = 'body' in step ? outgoing(step.body, cast) : undefined;
  const bytes = body instanceof Uint8Array;
  const response = await within(
    stage.options.patienceMs,
    `${step.request} is answered`,
    fetch(stage.target.url + path, {
      method,
      headers: {
        ...(step.anonymous || token === undefined ? {} : { authorization: `Bearer ${token}` }),
        ...(body === undefined ? {} : { 'content-type': bytes ? 'application/octet-stream' : 'application/json' }),
      },
      ...(body === undefined ? {} : { body: bytes ? Buffer.from(body) : JSON.stringify(body) }),
    }),
  );
  const data = Buffer.from(await response.arrayBuffer());
  const json = response.headers.get('content-type')?.includes('json');
  device.note({
    kind: 'response',
    name: `${method} ${path}`,
    status: response.status,
    body: data.length === 0 ? null : json ? (JSON.parse(data.toString()) as unknown) : data,
  });
}

function castOf(stage: Stage): Cast {
  return {
    word(name) {
      const id = stage.words.get(name);
      if (id === undefined) throw new Problem(`$${name} stands for nothing that can be sent`);
      return id;
    },
    socketId: (device) => deviceOf(stage, device).connection.id,
    ticket: (spec) => stage.options.identity.ticket(spec),
  };
}
