import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { matchOutcomes, wantedOf } from '../compare/match.js';
import type { Entry, Transcripts } from '../play/transcript.js';
import { readFolder } from '../read.js';
import { type DeviceSpec, devicesOf, type Outcome, type Scenario, type Step } from '../scenario.js';
import { packageRoot } from '../targets/root.js';
import { type CallEvent, Contract, callEvents, type Line } from './contract.js';

const folder = join(packageRoot, 'parity', 'scenarios');
const scenarios = readdirSync(folder).length > 0 ? readFolder(folder).scenarios : [];

/** Steps that come one after another and are about calls alone; the contract knows no time, no races and no other events. */
function plain({ steps, devices }: Scenario): boolean {
  const known: readonly string[] = callEvents;
  const namespaces = devices.every(({ namespace }) => namespace === '/' || namespace === '/calls');
  const simple = (step: Step): boolean => {
    if ('emit' in step) {
      const payload = JSON.stringify(step.payload ?? null);
      const one = !('args' in step) && step.repeat === undefined && step.ack !== 'later';
      return one && known.includes(step.emit) && !/"\$(ticket|deep|long|each)"|\$\{|\$socket/.test(payload);
    }
    if ('drop' in step) return true;
    return 'connect' in step
      ? step.token === undefined
      : 'barrier' in step || ('wait' in step && step.wait !== 'call-ended' && step.wait !== 'disconnected');
  };
  return (
    namespaces &&
    devices.every(({ token, retries }) => token === 'valid' && retries === undefined) &&
    steps.every(simple)
  );
}

function lived({ devices, conversations, steps }: Scenario): Outcome {
  const contract = new Contract(devices, conversations);
  const lines = new Map<string, Line[]>(devices.map(({ name }) => [name, []]));
  const specOf = (name: string) => devices.find((one) => one.name === name) as DeviceSpec;
  for (const spec of devices) if (!spec.later) lines.get(spec.name)?.push(contract.connect(spec));
  for (const step of steps) {
    if ('emit' in step) {
      const line = lines.get(step.by)?.at(-1) as Line;
      contract.emit(line, step.emit as CallEvent, step.payload, step.ack !== false);
    } else if ('connect' in step) {
      lines.get(step.connect)?.push(contract.connect(specOf(step.connect)));
    } else if ('drop' in step) {
      const line = lines.get(step.drop)?.at(step.old ? -2 : -1) as Line;
      line.ghost = true;
      if (step.noticed !== false) contract.drop(line);
    }
  }
  return contract.outcome;
}

const received = (outcome: Outcome): Transcripts =>
  Object.fromEntries(Object.entries(outcome).map(([device, list]) => [device, wantedOf(list) as Entry[]]));

describe('the contract says what the scenarios say', () => {
  const chosen = scenarios.filter(plain);

  it('for most of them', () => {
    expect(chosen.length).toBeGreaterThan(scenarios.length / 4);
  });

  it.each(chosen.map((scenario) => [scenario.name, scenario] as const))('%s', (_, scenario) => {
    const verdict = matchOutcomes(scenario.outcomes, received(lived(scenario)));
    expect(verdict.ok ? [] : verdict.divergences.map(({ device, at, what }) => `${device} ${at}: ${what}`)).toEqual([]);
  });
});

describe('the contract', () => {
  const devices = devicesOf({ alice: null, bob: { devices: ['bob', 'bob-phone'] } });
  const call = { call: ['alice', 'bob'] };
  const offer = { conversationId: '$call', offer: 'o' };

  it('a ghost receives nothing, and its late end changes nothing once the seat has moved', () => {
    const contract = new Contract(devices, call);
    const [alice, bob] = devices.map((device) => contract.connect(device)) as [Line, Line];
    contract.emit(alice, 'call-offer', offer, true);
    contract.emit(bob, 'call-answer', { conversationId: '$call', answer: 'a' }, true);
    bob.ghost = true;
    contract.emit(alice, 'ice-candidate', { conversationId: '$call', iceCandidate: 'lost' }, false);
    const back = contract.connect(bob.device);
    contract.emit(back, 'call-rejoin-offer', { conversationId: '$call', offer: 'o2' }, true);
    contract.drop(bob);
    contract.emit(alice, 'call-rejoin-answer', { conversationId: '$call', answer: 'a2' }, true);
    expect(contract.outcome.bob?.slice(2)).toEqual([
      { ack: 'call-rejoin-offer' },
      { 'call-rejoin-answer': { conversationId: '$call', answer: 'a2', fromUserId: '$alice' } },
    ]);
    expect(JSON.stringify(contract.outcome)).not.toContain('call-peer-disconnected');
  });

  it('names the namespace as part of a call', () => {
    const [alice, bob] = devicesOf({ alice: null, bob: { namespace: '/calls' } }) as [DeviceSpec, DeviceSpec];
    const contract = new Contract([alice, bob], call);
    const [a, b] = [contract.connect(alice), contract.connect(bob)];
    contract.emit(a, 'call-offer', offer, true);
    expect(contract.outcome.bob).toEqual([]);
    expect(contract.refusal(b, 'call-answer', '$call')).toBe('No such call');
    expect(contract.refusal(b, 'call-offer', '$call')).toBeUndefined();
  });
});
