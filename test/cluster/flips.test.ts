// Routes over several instances: a flip is in force on all within a second and says on how many, and a call keeps its path, wherever
// its parties are.
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { allLegacy, until } from '../harness.js';
import { type Bed, conversationOf, heard, type Instance, inCall, metricOf, startBed, talk } from './bed.js';

let bed: Bed;
beforeEach(async () => {
  bed = await startBed({ instances: 3, routes: allLegacy });
});
afterEach(() => bed.close());

interface Shown {
  readonly version: number;
}

const version = async ({ admin }: Instance): Promise<number> =>
  ((await (await fetch(`${admin}/api/status`)).json()) as { routes: Shown }).routes.version;

interface Flipped {
  readonly version: number;
  readonly confirmed: unknown;
}

async function post({ admin }: Instance, what: string, asked: object): Promise<Flipped> {
  const response = await fetch(`${admin}/api/routes/${what}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ ...asked, reason: 'a test flips' }),
  });
  const body = (await response.json()) as { version: Shown; confirmed: unknown };
  expect(response.status, JSON.stringify(body)).toBe(200);
  return { version: body.version.version, confirmed: body.confirmed };
}

const apply = (at: Instance, yaml: string): Promise<Flipped> => post(at, 'apply', { yaml });
// The first YAML that an instance reads or writes starts a thread, which on a busy machine takes longer than all the rest.
const flip = (at: Instance, mode: 'new' | 'legacy'): Promise<Flipped> =>
  post(at, 'set', { target: 'calls', mode, guard: 'off' });

describe('a flip', () => {
  it('is in force on all three within a second, and says on how many', async () => {
    const [one, two, three] = bed.instances as [Instance, Instance, Instance];
    for (const [at, mode] of [
      [one, 'new'],
      [two, 'legacy'],
      [three, 'new'],
    ] as const) {
      const started = performance.now();
      const flipped = await flip(at, mode);
      expect(flipped.confirmed).toEqual({ instances: 3, of: 3 });
      for (const instance of bed.instances) expect(await version(instance)).toBe(flipped.version);
      expect(performance.now() - started).toBeLessThan(1_000);
    }
  });

  it('one after another from all three at once: all have the same table at the end, and none is lost', async () => {
    const before = await version(bed.instances[0] as Instance);
    await Promise.all(
      bed.instances.map((instance) =>
        apply(instance, `namespaces:\n  /of-${instance.name}: { calls: { mode: new, guard: off } }\n`),
      ),
    );
    const latest = Math.max(...(await Promise.all(bed.instances.map(version))));
    expect(latest).toBe(before + 3);
    await until(
      async () => (await Promise.all(bed.instances.map(version))).every((one) => one === latest),
      'all have the latest',
      1_000,
    );
  });

  it('does not change the path of a call that lives, whichever instance its parties are on', async () => {
    const [one, two, three] = bed.instances as [Instance, Instance, Instance];
    const [a, b, c, d] = await Promise.all([
      bed.on(one, 'p-a'),
      bed.on(two, 'p-b'),
      bed.on(two, 'p-c'),
      bed.on(three, 'p-d'),
    ]);
    const ofLegacy = await inCall(a, b);
    await flip(three, 'new');
    const ofNew = await inCall(c, d);
    await talk(ofLegacy, a, b);
    // A second offer of either goes where the call is: there it is refused, and on the other path it would begin a call.
    expect(await b.ask('call-offer', { conversationId: ofLegacy, offer: 'again' })).toMatchObject({ ok: false });
    await flip(one, 'legacy');
    await talk(ofNew, c, d);
    expect(await d.ask('call-offer', { conversationId: ofNew, offer: 'again' })).toMatchObject({ ok: false });
    // Also for a device of theirs on an instance that has seen nothing of it.
    const [bThere, dThere] = await Promise.all([bed.on(three, 'p-b'), bed.on(one, 'p-d')]);
    for (const [device, conversationId] of [
      [bThere, ofLegacy],
      [dThere, ofNew],
    ] as const) {
      expect(await device.ask('call-offer', { conversationId, offer: 'there' })).toEqual({
        ok: false,
        error: 'Call already in progress',
      });
    }
    expect(await metricOf(bed.instances, 'sigfig_calls')).toBe(1);
    for (const [party, other, conversationId] of [
      [a, b, ofLegacy],
      [c, d, ofNew],
    ] as const) {
      expect(await party.ask('call-end', { conversationId })).toEqual({ ok: true });
      expect(await other.next('call-ended')).toEqual({ conversationId, reason: 'hangup', userId: party.user });
      expect(heard(other).filter((name) => name.startsWith('call-ended'))).toHaveLength(1);
    }
  });

  it('in the moment of an offer from each side: one call, on one path', async () => {
    const [one, two, three] = bed.instances as [Instance, Instance, Instance];
    for (let round = 0; round < 6; round++) {
      const [a, b] = await Promise.all([bed.on(one, `g${round}-a`), bed.on(two, `g${round}-b`)]);
      const conversationId = conversationOf(a, b);
      const [, first, second] = await Promise.all([
        flip(three, round % 2 ? 'legacy' : 'new'),
        a.ask('call-offer', { conversationId, offer: 'from a' }),
        b.ask('call-offer', { conversationId, offer: 'from b' }),
      ]);
      const won = [first, second].filter((answer) => (answer as { ok: boolean }).ok);
      expect(won, JSON.stringify([first, second])).toHaveLength(1);
      const [caller, callee] = (first as { ok: boolean }).ok ? [a, b] : [b, a];
      await callee.next('call-offer');
      expect(await callee.ask('call-answer', { conversationId, answer: 'yes' })).toEqual([]);
      await caller.next('call-answer');
      await talk(conversationId, caller, callee);
      expect(await callee.ask('call-end', { conversationId })).toEqual({ ok: true });
      await caller.next('call-ended');
    }
  }, 30_000);
});
