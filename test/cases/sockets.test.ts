// Sockets that come and go on one connection: a seat belongs to one socket, and to no later one that looks like it.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Client, callsNew, connect, type Stack, startStack, until } from '../harness.js';
import { type Hand, hand } from './hand.js';

let stack: Stack;
let count = 0;
beforeAll(async () => {
  stack = await startStack({ routes: callsNew });
});
afterAll(() => stack.close());

const token = (user: string) => JSON.stringify({ token: stack.legacy.tokens.issue({ id: user, name: user }) });

interface Pair {
  readonly a: Hand;
  readonly b: Client;
  readonly ua: string;
  readonly conversationId: string;
}

async function pair(transport: string): Promise<Pair> {
  const [ua, ub] = [`sockets-${++count}-a`, `sockets-${count}-b`] as const;
  const b = await connect(stack.proxy.url, ub, { transports: ['websocket'] });
  const a = await hand(transport, stack.proxy.url, `40${token(ua)}`);
  return { a, b, ua, conversationId: `dm:${ua}:${ub}` };
}

async function inCall(transport: string): Promise<Pair> {
  const both = await pair(transport);
  const { a, b, conversationId } = both;
  await a.send(`420["call-offer",{"conversationId":"${conversationId}","offer":"o"}]`);
  expect(await a.next()).toBe('430[{"ok":true}]');
  await b.ask('call-answer', { conversationId, answer: 'a' });
  expect(await a.next()).toMatch(/^42\["call-answer"/);
  return both;
}

const done = ({ a, b }: Pair) => {
  a.end();
  b.close();
};

describe.each(['websocket', 'polling'])('sockets on one connection, over %s', (transport) => {
  test('`41` and `40` again: a new socket, and the seat of the old one is lost and can be rejoined', async () => {
    const call = await inCall(transport);
    const { a, b, ua, conversationId } = call;
    await a.send('41');
    expect(await b.next('call-peer-disconnected')).toEqual({ conversationId, userId: ua });
    await a.send(`40${token(ua)}`);
    expect(await a.next()).toMatch(/^40\{"sid":/);
    await a.send(`421["ice-candidate",{"conversationId":"${conversationId}","iceCandidate":1}]`);
    expect(await a.next()).toBe('431[{"ok":true}]');
    await a.send(`422["call-rejoin-offer",{"conversationId":"${conversationId}","offer":"again"}]`);
    expect(await a.next()).toBe('432[{"ok":true}]');
    expect(await b.next('call-rejoin-offer')).toEqual({ conversationId, offer: 'again', fromUserId: ua });
    expect(await b.ask('call-rejoin-answer', { conversationId, answer: 'back' })).toEqual([]);
    expect(await a.next()).toMatch(/^42\["call-rejoin-answer"/);
    expect(b.got.some(({ event }) => event === 'ice-candidate')).toBe(false);
    done(call);
  });

  test('`41` and `40` in one go end the connection as direct, and the call waits for a rejoin', async () => {
    const call = await inCall(transport);
    const { a, b, ua, conversationId } = call;
    const direct = await hand(transport, stack.legacy.url, `40${token('hasty')}`);
    await direct.send('41', `40${token('hasty')}`);
    await a.send('41', `40${token(ua)}`);
    expect(await a.next()).toBe(await direct.next());
    expect(await b.next('call-peer-disconnected')).toEqual({ conversationId, userId: ua });
    expect(await b.ask('call-end', { conversationId })).toEqual({ ok: true });
    done(call);
  });

  test('an offer whose socket leaves while its ticket is fetched makes no call, also for the next socket', async () => {
    const slow = await startStack({ routes: callsNew, legacy: { membershipLatencyMs: 300 } });
    const auth = JSON.stringify({ token: slow.legacy.tokens.issue({ id: 'left-a', name: 'left-a' }) });
    const b = await connect(slow.proxy.url, 'left-b', { transports: ['websocket'] });
    const a = await hand(transport, slow.proxy.url, `40${auth}`);
    const lookups = slow.legacy.membership.lookups;
    await a.send('421["call-offer",{"conversationId":"dm:left-a:left-b","offer":"o"}]');
    await until(() => slow.legacy.membership.lookups > lookups, 'the ticket is asked for');
    await a.send('41');
    await until(() => slow.legacy.io.of('/').sockets.size === 1, 'the legacy has seen it leave');
    await a.send(`40${auth}`);
    expect(await a.next()).toMatch(/^40\{"sid":/);
    await a.send('421["call-offer",{"conversationId":"dm:left-a:left-b","offer":"p"}]');
    expect(await a.next()).toBe('431[{"ok":true}]');
    expect(await b.next('call-offer')).toMatchObject({ offer: 'p' });
    expect(b.got).toHaveLength(1);
    a.end();
    b.close();
    await slow.close();
  });

  test('a second CONNECT of a namespace ends the connection as direct, and the call waits for a rejoin', async () => {
    const call = await inCall(transport);
    const { a, b, ua, conversationId } = call;
    const direct = await hand(transport, stack.legacy.url, `40${token('second')}`);
    await direct.send(`40${token('second')}`);
    await a.send(`40${token(ua)}`);
    expect(await a.next()).toBe(await direct.next());
    expect(await b.next('call-peer-disconnected')).toEqual({ conversationId, userId: ua });
    expect(await b.ask('call-end', { conversationId })).toEqual({ ok: true });
    done(call);
  });

  test('two CONNECTs before the first is answered: as direct, and the later socket is served', async () => {
    const [ua, ub] = [`twice-${transport}-a`, `twice-${transport}-b`];
    const b = await connect(stack.proxy.url, ub, { transports: ['websocket'] });
    const outcome = async (url: string) => {
      const one = await hand(transport, url);
      await one.send(`40${token(ua)}`, `40${token(ua)}`);
      const answers = await one.take(2);
      await one.send('421["echo",1]', '422["whoami"]');
      const [echo, whoami] = (await one.take(2)) as [string, string];
      const sid = /"socketId":"([^"]+)"/.exec(whoami)?.[1];
      return { one, shown: [echo, answers.map((answer) => answer === `40{"sid":"${sid}"}`)] };
    };
    const direct = await outcome(stack.legacy.url);
    const { one, shown } = await outcome(stack.proxy.url);
    expect(shown).toEqual(direct.shown);
    direct.one.end();
    const conversationId = `dm:${ua}:${ub}`;
    await one.send(`423["call-offer",{"conversationId":"${conversationId}","offer":"o"}]`);
    expect(await one.next()).toBe('433[{"ok":true}]');
    await b.ask('call-answer', { conversationId, answer: 'a' });
    expect(await one.next()).toMatch(/^42\["call-answer"/);
    one.end();
    expect(await b.next('call-peer-disconnected')).toMatchObject({ conversationId });
    b.close();
  });

  test('an event before `40{"sid"}` is not served; the legacy decides as direct', async () => {
    const event = '421["call-offer",{"conversationId":"dm:early-a:early-b","offer":"o"}]';
    const b = await connect(stack.proxy.url, 'early-b', { transports: ['websocket'] });
    for (const packets of [[event], [`40${token('early-a')}`, event]]) {
      const outcome = async (url: string) => {
        const one = await hand(transport, url);
        await one.send(...packets);
        const all = [await one.next()];
        while (!all.at(-1)?.startsWith('end') && !all.at(-1)?.startsWith('43')) all.push(await one.next());
        one.end();
        return all.map((packet) => packet.replace(/"sid":"[^"]+"/, '"sid":"…"'));
      };
      expect(await outcome(stack.proxy.url)).toEqual(await outcome(stack.legacy.url));
    }
    expect(b.got).toEqual([]);
    b.close();
  });

  test('a refused CONNECT of one namespace takes nothing from the other, and a later one is served', async () => {
    const call = await inCall(transport);
    const { a, b, conversationId, ua } = call;
    await a.send('40/calls,{"token":"nonsense"}', '40/nowhere,');
    expect((await a.take(2)).map((p) => p.slice(0, 4)).toSorted()).toEqual(['44/c', '44/n']);
    await a.send(`421["ice-candidate",{"conversationId":"${conversationId}","iceCandidate":"c"}]`);
    expect(await a.next()).toBe('431[{"ok":true}]');
    expect(await b.next('ice-candidate')).toBe('c');
    await a.send(`40/calls,${token(ua)}`);
    expect(await a.next()).toMatch(/^40\/calls,\{"sid"/);
    await a.send('42/calls,1["call-end",{"conversationId":"dm:x:y"}]');
    expect((await a.take(2)).map((p) => p.slice(0, 14))).toEqual(['42/calls,["err', '43/calls,1[{"o']);
    done(call);
  });
});
