import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { readScenarios } from '../read.js';
import type { Step } from '../scenario.js';
import { lifecycles } from './arbitrary.js';
import { type Lifecycle, type Move, scripted, withoutOne } from './moves.js';
import { scenarioText } from './scenario-text.js';

const seed = 7;
const plain = { transport: 'websocket', elsewhere: false } as const;
const of = (moves: readonly Move[], more: Partial<Lifecycle> = {}): Lifecycle => ({
  users: [[plain], [plain]],
  namespace: '/',
  group: false,
  moves,
  ...more,
});
const any = (device: number, event: number): Move => ({
  move: 'any',
  device,
  event,
  conversation: 0,
  form: 'text',
  ack: true,
});
const [offer, answer, candidate, end] = [0, 1, 2, 7] as const;
const titles = (steps: readonly Step[]) =>
  steps.map((step) => ('emit' in step ? `${step.by} ${step.emit}` : Object.values(step).join(' ')));

describe('a generated lifecycle', () => {
  it('is a scenario that can be read, written as a person would', () => {
    fc.assert(
      fc.property(lifecycles, (lifecycle) => {
        const script = scripted(lifecycle);
        fc.pre(script.play.steps.length > 0);
        const text = scenarioText(script, 'one', 'About this: "it".');
        const { scenarios, problems } = readScenarios(text, 'found.yaml');
        expect(problems).toEqual([]);
        expect(scenarios[0]).toMatchObject({ name: 'one', about: 'About this: "it".', outcomes: [script.outcome] });
        expect(scenarios[0]?.steps).toEqual(script.play.steps);
        expect(scenarios[0]?.devices).toEqual(script.play.devices);
        expect(scenarios[0]?.conversations).toEqual(script.play.conversations);
        expect(text).not.toMatch(/[&*]a\d/);
      }),
      { seed, numRuns: 150 },
    );
  });

  it('can be played: nobody acts without a connection, and nothing is dropped twice', () => {
    fc.assert(
      fc.property(lifecycles, (lifecycle) => {
        const { play } = scripted(lifecycle);
        const on = new Set(play.devices.map(({ name }) => name));
        const old = new Set<string>();
        for (const step of play.steps) {
          if ('emit' in step) expect(on).toContain(step.by);
          if ('connect' in step) {
            expect(on).not.toContain(step.connect);
            on.add(step.connect);
          }
          if (!('drop' in step)) continue;
          expect(step.old ? old : on).toContain(step.drop);
          (step.old ? old : on).delete(step.drop);
          if (step.how === 'silence') old.add(step.drop);
        }
      }),
      { seed, numRuns: 500 },
    );
  });

  it('asks for nothing twice in the same words, but for the end of a call', () => {
    fc.assert(
      fc.property(lifecycles, (lifecycle) => {
        const asked = scripted(lifecycle).play.steps.flatMap((step) =>
          'emit' in step && step.emit !== 'call-end' && JSON.stringify(step.payload ?? {}).match(/[a-z]\d|:\d/)
            ? [`${step.by} ${step.emit} ${JSON.stringify(step.payload)}`]
            : [],
        );
        expect(new Set(asked).size).toBe(asked.length);
      }),
      { seed, numRuns: 300 },
    );
  });

  it('goes far: calls are answered, renegotiated, rejoined and ended', () => {
    const text = JSON.stringify(fc.sample(lifecycles, { seed, numRuns: 300 }).map((one) => scripted(one).outcome));
    const times = (what: string) => text.split(what).length - 1;
    for (const what of ['call-answer":{', 'call-renegotiate-answer":{', 'call-rejoin-answer":{', 'hangup']) {
      expect(times(what), what).toBeGreaterThan(20);
    }
    for (const what of ['answered-elsewhere', 'offerer-left', 'Not the active device', 'retry later', 'Malformed']) {
      expect(times(what), what).toBeGreaterThan(8);
    }
  });
});

describe('what differs on purpose is left out', () => {
  it('1: a candidate ahead of its own offer', () => {
    const { play, avoided } = scripted(of([any(0, candidate), any(0, offer), any(1, offer)]));
    expect(titles(play.steps)).toEqual(['alice ice-candidate', 'bob call-offer']);
    expect(avoided).toEqual({ 1: 1, 2: 0 });
  });

  it('1: not that of another connection', () => {
    const drop: Move = { move: 'drop', device: 0, how: 'close' };
    const { play, avoided } = scripted(of([any(0, candidate), drop, any(0, offer)]));
    expect(titles(play.steps).slice(-1)).toEqual(['alice call-offer']);
    expect(avoided[1]).toBe(0);
  });

  it('2: the end of a call asked for again asks for no acknowledgement', () => {
    const { play, avoided } = scripted(of([any(0, offer), any(1, answer), any(0, end), any(0, end), any(1, end)]));
    const acks = play.steps.map((step) => ('ack' in step ? step.ack : true));
    expect(acks).toEqual([true, true, true, false, true]);
    expect(avoided[2]).toBe(1);
  });
});

describe('a call that was offered to nobody who was connected', () => {
  const drop: Move = { move: 'drop', device: 1, how: 'close' };

  it('is over everywhere before the next one: it is the legacy that has it', () => {
    const { play } = scripted(of([drop, any(0, offer), any(0, end), any(0, offer)]));
    expect(titles(play.steps).slice(2)).toEqual(['alice call-offer', 'alice call-end', 'true', 'alice call-offer']);
  });

  it('other calls need no such proof', () => {
    const { play } = scripted(of([any(0, offer), any(0, end), any(0, offer)]));
    expect(titles(play.steps)).toEqual(['alice call-offer', 'alice call-end', 'alice call-offer']);
  });
});

describe('moves that make no sense at their point', () => {
  it('a device that acts without a connection gets one first', () => {
    const { play } = scripted(of([{ move: 'drop', device: 1, how: 'rst' }, any(1, offer)]));
    expect(titles(play.steps)).toEqual(['bob rst', 'true', 'bob', 'bob call-offer']);
  });

  it.each<[string, Move]>([
    ['a connect of who is connected', { move: 'connect', device: 0, other: true }],
    ['the end of an old connection that is none', { move: 'drop-old', device: 0 }],
  ])('%s is left out', (_, move) => {
    expect(scripted(of([move])).play.steps).toEqual([]);
  });

  it('a silent replacement over polling is left out: only the heartbeat would notice', () => {
    const polling = { transport: 'polling', elsewhere: false } as const;
    const replace: Move = { move: 'replace', device: 0, other: false };
    expect(scripted(of([replace], { users: [[polling], [plain]] })).play.steps).toEqual([]);
    expect(titles(scripted(of([replace])).play.steps)).toEqual(['alice silence false', 'alice']);
  });
});

describe('one thing less', () => {
  it('the last moves first, then users and devices; the first two users stay', () => {
    const lifecycle = of([any(0, offer), any(1, answer)], { users: [[plain, plain], [plain], [plain]] });
    const less = withoutOne(lifecycle);
    expect(less.map(({ moves }) => moves.length)).toEqual([1, 1, 2, 2]);
    expect(less[0]?.moves).toEqual([any(0, offer)]);
    expect(less.slice(2).map(({ users }) => users.map((devices) => devices.length))).toEqual([
      [2, 1],
      [1, 1, 1],
    ]);
    expect(withoutOne(of([]))).toEqual([]);
  });
});
