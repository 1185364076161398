// One population over three instances: devices of one user on all of them, two instances that decide on one call in the same moment,
// order over the whole way. What the parity suite plays once is played often here.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { until } from '../harness.js';
import { type Bed, conversationOf, heard, type Instance, inCall, metricOf, startBed, talk } from './bed.js';

let bed: Bed;
beforeAll(async () => {
  bed = await startBed({ instances: 3 });
});
afterAll(() => bed.close());

const three = () => bed.instances as [Instance, Instance, Instance];
const calls = () => metricOf(bed.instances, 'sigfig_calls');

describe('over several instances', () => {
  it('every device of the callee rings, wherever it is, and all but the one that answers are told', async () => {
    const [one, two, last] = three();
    const [a, onOne, onTwo, onLast, polling] = await Promise.all([
      bed.on(one, 'd-a'),
      bed.on(one, 'd-b'),
      bed.on(two, 'd-b'),
      bed.on(last, 'd-b'),
      bed.on(last, 'd-b', { transports: ['polling'] }),
    ]);
    const conversationId = conversationOf(a, onTwo);
    expect(await a.ask('call-offer', { conversationId, offer: 'o' })).toEqual({ ok: true });
    const devices = [onOne, onTwo, onLast, polling];
    for (const device of devices) {
      expect(await device.next('call-offer')).toEqual({ conversationId, offer: 'o', fromUserId: a.user });
    }
    expect(await onTwo.ask('call-answer', { conversationId, answer: 'a' })).toEqual([]);
    await a.next('call-answer');
    for (const device of devices.filter((one) => one !== onTwo)) {
      expect(await device.next('call-ended')).toEqual({
        conversationId,
        reason: 'answered-elsewhere',
        userId: onTwo.user,
      });
      expect(await device.ask('ice-candidate', { conversationId, iceCandidate: 'x' })).toEqual({
        ok: false,
        error: 'Not the active device',
      });
    }
    await talk(conversationId, a, onTwo);
    // A device that hangs up for the other one: both seats are told.
    expect(await onLast.ask('call-end', { conversationId })).toEqual({ ok: true });
    for (const party of [a, onTwo]) expect(await party.next('call-ended')).toMatchObject({ reason: 'hangup' });
    expect(heard(onOne)).toEqual(['call-offer', 'call-ended: answered-elsewhere', 'error: Not the active device']);
  });

  it('two renegotiations at once: exactly one is relayed and exactly one refused, each time', async () => {
    const [one, two] = three();
    const [a, b] = await Promise.all([bed.on(one, 'g-a'), bed.on(two, 'g-b')]);
    const conversationId = await inCall(a, b);
    const won = { a: 0, b: 0 };
    for (let round = 0; round < 40; round++) {
      const answers = (await Promise.all([
        a.ask('call-renegotiate-offer', { conversationId, offer: `a${round}` }),
        b.ask('call-renegotiate-offer', { conversationId, offer: `b${round}` }),
      ])) as { ok: boolean; error?: string }[];
      expect(answers.filter(({ ok }) => ok)).toHaveLength(1);
      expect(answers.find(({ ok }) => !ok)?.error).toBe('Renegotiation in progress, retry later');
      const [winner, other, name] = answers[0]?.ok ? [a, b, 'a'] : [b, a, 'b'];
      won[name as 'a' | 'b']++;
      expect(await other.next('call-renegotiate-offer')).toMatchObject({ offer: `${name}${round}` });
      expect(await other.ask('call-renegotiate-answer', { conversationId, answer: `r${round}` })).toEqual({ ok: true });
      await winner.next('call-renegotiate-answer');
    }
    expect(won.a + won.b).toBe(40);
    await a.ask('call-end', { conversationId });
    await b.next('call-ended');
  });

  it('two offers at once: one call, each time', async () => {
    const [one, two] = three();
    const [a, b] = await Promise.all([bed.on(one, 'o-a'), bed.on(two, 'o-b')]);
    const conversationId = conversationOf(a, b);
    for (let round = 0; round < 20; round++) {
      const answers = (await Promise.all([
        a.ask('call-offer', { conversationId, offer: `a${round}` }),
        b.ask('call-offer', { conversationId, offer: `b${round}` }),
      ])) as { ok: boolean; error?: string }[];
      expect(answers.filter(({ ok }) => ok)).toHaveLength(1);
      expect(answers.find(({ ok }) => !ok)?.error).toBe('Call already in progress');
      const [caller, callee] = answers[0]?.ok ? [a, b] : [b, a];
      await callee.next('call-offer');
      expect(await callee.ask('call-end', { conversationId })).toEqual({ ok: true });
      await caller.next('call-ended');
    }
  });

  it('two devices of one user on two instances answer at once: one of them has the call', async () => {
    const [one, two, last] = three();
    const [a, b1, b2] = await Promise.all([bed.on(one, 'w-a'), bed.on(two, 'w-b'), bed.on(last, 'w-b')]);
    const conversationId = conversationOf(a, b1);
    for (let round = 0; round < 20; round++) {
      await a.ask('call-offer', { conversationId, offer: 'o' });
      await Promise.all([b1.next('call-offer'), b2.next('call-offer')]);
      for (const device of [b1, b2]) device.forget();
      const answers = await Promise.all([
        b1.ask('call-answer', { conversationId, answer: 'from 1' }),
        b2.ask('call-answer', { conversationId, answer: 'from 2' }),
      ]);
      expect(answers).toEqual([[], []]);
      await until(
        () => [b1, b2].filter(({ got }) => got.some(({ event }) => event === 'call-ended')).length === 1,
        'the other one is told',
      );
      const winner = b1.got.some(({ event }) => event === 'call-ended') ? b2 : b1;
      expect(await a.next('call-answer')).toMatchObject({ answer: winner === b1 ? 'from 1' : 'from 2' });
      await talk(conversationId, a, winner);
      expect(await winner.ask('call-end', { conversationId })).toEqual({ ok: true });
      await a.next('call-ended');
      await winner.ask('whoami');
    }
    expect(heard(a).filter((name) => name === 'call-answer')).toHaveLength(20);
  });

  it('both parties leave at once, each from its instance: nothing is left of the call', async () => {
    const [one, two, last] = three();
    for (let round = 0; round < 10; round++) {
      const [a, b] = await Promise.all([bed.on(one, `l${round}-a`), bed.on(two, `l${round}-b`)]);
      const conversationId = await inCall(a, b);
      a.close();
      b.close();
      const back = await bed.on(last, a.user);
      await until(
        async () =>
          ((await back.ask('call-rejoin-offer', { conversationId, offer: 'r' })) as { error?: string }).error ===
          'No such call',
        'the call has ended',
      );
    }
    await until(async () => (await calls()) === 0, 'no call is counted');
  });

  it('2,000 candidates each way come in order, each once, by WebSocket and by polling', async () => {
    const [one, two] = three();
    const [a, b] = await Promise.all([bed.on(one, 'c-a'), bed.on(two, 'c-b', { transports: ['polling'] })]);
    const conversationId = await inCall(a, b);
    const numbers = Array.from({ length: 2_000 }, (_, n) => n);
    for (const n of numbers) {
      a.socket.emit('ice-candidate', { conversationId, iceCandidate: n });
      b.socket.emit('ice-candidate', { conversationId, iceCandidate: n });
      if (n % 100 === 99) await Promise.all([a.ask('whoami'), b.ask('whoami')]);
    }
    for (const party of [a, b]) {
      const came = () => party.got.filter(({ event }) => event === 'ice-candidate').map(({ args }) => args[0]);
      await until(() => came().length >= 2_000, 'all have come', 15_000);
      expect(came()).toEqual(numbers);
    }
    await a.ask('call-end', { conversationId });
  }, 40_000);

  it('an operator ends a call from an instance that has neither party', async () => {
    const [one, two, last] = three();
    const [a, b] = await Promise.all([bed.on(one, 'e-a'), bed.on(two, 'e-b')]);
    const conversationId = await inCall(a, b);
    const listed = (await (await fetch(`${last.admin}/api/calls`)).json()) as {
      calls: { id: string; conversationId: string }[];
    };
    expect(listed.calls.map((call) => call.conversationId)).toContain(conversationId);
    const { id } = listed.calls.find((call) => call.conversationId === conversationId) as (typeof listed.calls)[0];
    const response = await fetch(`${last.admin}/api/calls/${encodeURIComponent(id)}/end`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ reason: 'a test' }),
    });
    expect(response.status, await response.text()).toBe(200);
    for (const party of [a, b]) {
      expect(await party.next('call-ended')).toMatchObject({ conversationId, reason: 'operator' });
    }
  });

  it('a call in a namespace of its own rings there alone', async () => {
    const [one, two, last] = three();
    const [a, b, elsewhere] = await Promise.all([
      bed.on(one, 'n-a', { transports: ['websocket'], ns: '/calls' }),
      bed.on(two, 'n-b', { transports: ['websocket'], ns: '/calls' }),
      bed.on(last, 'n-b'),
    ]);
    const conversationId = await inCall(a, b);
    await talk(conversationId, a, b);
    expect(await a.ask('call-end', { conversationId })).toEqual({ ok: true });
    await b.next('call-ended');
    expect(heard(elsewhere)).toEqual([]);
  });
});
