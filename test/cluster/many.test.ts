// Many calls at once over several instances: an instance killed under 200 of them, the legacy under 50, three instances replaced
// one after another under 100. All of them go on.
import { afterEach, describe, expect, it } from 'vitest';
import { type Client, until, within } from '../harness.js';
import { type Balancer, startBalancer } from './balancer.js';
import { type Bed, callsAre, heard, type Instance, inCall, rejoin, startBed, talk, websocket } from './bed.js';

let bed: Bed;
let balancer: Balancer | undefined;
afterEach(async () => {
  await balancer?.close();
  balancer = undefined;
  await bed.close();
});

interface Call {
  readonly a: Client;
  readonly b: Client;
  readonly conversationId: string;
}

/** Some at a time, so that nothing waits for the machine. */
async function each<T, R>(list: readonly T[], most: number, make: (one: T, n: number) => Promise<R>): Promise<R[]> {
  const results: R[] = [];
  let next = 0;
  const worker = async (): Promise<void> => {
    for (let n = next++; n < list.length; n = next++) results[n] = await make(list[n] as T, n);
  };
  await Promise.all(Array.from({ length: most }, worker));
  return results;
}

const unavailable = 'Signaling is unavailable, try again';

const numbers = (count: number): number[] => Array.from({ length: count }, (_, n) => n);

/** Whoever of these is asked again until the call has been taken over. */
async function offerAgain(back: Client, conversationId: string): Promise<void> {
  const deadline = Date.now() + 10_000;
  for (;;) {
    const answer = (await back.ask('call-rejoin-offer', { conversationId, offer: 'again' })) as {
      ok: boolean;
      error?: string;
    };
    if (answer.ok) return;
    if (Date.now() > deadline) throw new Error(`${back.user} can't rejoin ${conversationId}: ${answer.error}`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

describe('under many calls', () => {
  it('an instance is killed, 200 live calls touch it, half of them with both parties on it: all recover', async () => {
    bed = await startBed({ instances: 3 });
    const [victim, second, third] = bed.instances as [Instance, Instance, Instance];
    const calls = await each(numbers(200), 20, async (n): Promise<Call> => {
      const places = n % 2 === 0 ? [victim, victim] : n % 4 === 1 ? [victim, second] : [third, victim];
      const [a, b] = (await Promise.all(
        places.map((place, i) => bed.on(place, `m${n}${'ab'[i]}`, { ...websocket, reconnection: false })),
      )) as [Client, Client];
      return { a, b, conversationId: await inCall(a, b) };
    });
    await victim.kill();
    const killed = Date.now();
    // Those with one party elsewhere: that one is told, once.
    const single = calls.map((call, n) => ({ ...call, n })).filter(({ n }) => n % 2 === 1);
    await Promise.all(
      single.map(({ a, b, n }) => {
        const survivor = n % 4 === 1 ? b : a;
        return within(5_000, `${survivor.user} is told`, survivor.next('call-peer-disconnected'));
      }),
    );
    expect(Date.now() - killed).toBeLessThan(5_000);
    await each(calls, 20, async ({ a, b, conversationId }, n) => {
      if (n % 2 === 1) {
        const [survivor, lost] = n % 4 === 1 ? [b, a] : [a, b];
        const back = await bed.on(n % 4 === 1 ? third : second, lost.user);
        await rejoin(conversationId, back, survivor);
        await talk(conversationId, back, survivor);
        expect(heard(survivor).filter((name) => name === 'call-peer-disconnected')).toHaveLength(1);
        return;
      }
      const [backA, backB] = await Promise.all([bed.on(second, a.user), bed.on(third, b.user)]);
      await offerAgain(backA, conversationId);
      await backB.next('call-rejoin-offer');
      expect(await backB.ask('call-rejoin-answer', { conversationId, answer: 'back' })).toEqual([]);
      await backA.next('call-rejoin-answer');
      await talk(conversationId, backA, backB);
    });
    const living = [second, third];
    await callsAre(living, { CONNECTED: 200 });
  }, 90_000);

  it('the legacy is killed and restarted, 50 live calls across instances: all recover', async () => {
    bed = await startBed({ instances: 2 });
    const [one, two] = bed.instances as [Instance, Instance];
    const reconnecting = { ...websocket, reconnection: true, reconnectionDelay: 50, reconnectionDelayMax: 200 };
    const calls = await each(numbers(50), 10, async (n): Promise<Call> => {
      const [a, b] = await Promise.all([
        bed.on(n % 2 ? one : two, `l${n}a`, reconnecting),
        bed.on(n % 3 ? two : one, `l${n}b`, reconnecting),
      ]);
      return { a, b, conversationId: await inCall(a, b) };
    });
    const back = new Set<string>();
    for (const { socket, user } of calls.flatMap(({ a, b }) => [a, b])) {
      socket.io.once('reconnect', () => void back.add(user));
    }
    const port = new URL(bed.legacy.url).port;
    await bed.legacy.kill();
    await callsAre(bed.instances, { AWAITING_REJOIN: 50 });
    await bed.all.legacy(['--listen', `127.0.0.1:${port}`]);
    await until(() => back.size === 100, 'all browsers are back', 20_000);
    await each(calls, 10, async ({ a, b, conversationId }) => {
      await offerAgain(a, conversationId);
      await b.next('call-rejoin-offer');
      expect(await b.ask('call-rejoin-answer', { conversationId, answer: 'back' })).toEqual([]);
      await a.next('call-rejoin-answer');
      await talk(conversationId, a, b);
      expect(
        heard(a)
          .concat(heard(b))
          .filter((name) => name.startsWith('call-ended')),
      ).toEqual([]);
    });
  }, 60_000);

  it('three instances are replaced one after another, 100 live calls: no call ends, and no peer is seen to leave', async () => {
    bed = await startBed({ instances: 3, args: ['--drain-delay', '300ms', '--drain', '5s'] });
    balancer = await startBalancer(bed.instances);
    const front = { url: balancer.url } as Instance;
    const reconnecting = { ...websocket, reconnection: true, reconnectionDelay: 20, reconnectionDelayMax: 100 };
    const calls = await each(numbers(100), 20, async (n): Promise<Call> => {
      const [a, b] = await Promise.all([bed.on(front, `r${n}a`, reconnecting), bed.on(front, `r${n}b`, reconnecting)]);
      return { a, b, conversationId: await inCall(a, b) };
    });
    let moves = 0;
    for (const { a, b } of calls) for (const { socket } of [a, b]) socket.io.on('reconnect', () => void moves++);
    // Candidates all the while: what was acknowledged must have come, once and in order, also what was for a seat on its way.
    let going = true;
    const acknowledged = calls.map((): number[] => []);
    const refused: string[] = [];
    const talking = calls.map(async ({ a, conversationId }, n) => {
      for (let iceCandidate = 1; going; iceCandidate++) {
        if (a.socket.connected) {
          const answer = (await a.socket
            .timeout(4_000)
            .emitWithAck('ice-candidate', { conversationId, iceCandidate })
            .catch(() => undefined)) as { ok: boolean; error?: string } | undefined; // its own connection moved meanwhile
          if (answer?.ok) acknowledged[n]?.push(iceCandidate);
          // On a machine without a moment to spare a lease may be late, and says so: worth a retry, as the text says.
          else if (answer && answer.error !== unavailable) refused.push(`${a.user}: ${answer.error}`);
        }
        await new Promise((resolve) => setTimeout(resolve, 200));
      }
    });
    for (const [i, old] of [...bed.instances].entries()) {
      const next = await bed.add(`new${i + 1}`);
      balancer.add(next);
      old.signal('SIGTERM');
      expect(await within(20_000, `${old.name} has ended`, old.exited)).toBe(0);
      balancer.remove(old);
    }
    await until(() => calls.every(({ a, b }) => a.socket.connected && b.socket.connected), 'everybody is connected');
    going = false;
    await Promise.all(talking);
    // Each of the 200 connections moved at least once.
    expect(moves).toBeGreaterThanOrEqual(200);
    expect(refused).toEqual([]);
    await each(calls, 20, async ({ a, b, conversationId }, n) => {
      await talk(conversationId, a, b);
      const expected = ['call-answer', 'call-offer', 'ice-candidate'];
      expect([...heard(a), ...heard(b)].filter((name) => !expected.includes(name))).toEqual([]);
      const came = b.got.map(({ args }) => args[0]).filter((arg): arg is number => typeof arg === 'number');
      expect(came, `candidates of ${a.user}: in order, each once`).toEqual([...new Set(came)].sort((x, y) => x - y));
      expect(
        acknowledged[n]?.filter((one) => !came.includes(one)),
        `candidates of ${a.user} that were acknowledged and did not come`,
      ).toEqual([]);
    });
    const living = bed.instances.slice(3);
    await callsAre(living, { CONNECTED: 100 });
  }, 90_000);
});
