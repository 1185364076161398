// However an event's name, namespace and id are written, it is the same event: served where it is ours, and the legacy's
// as it was written where it is not.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Client, callsNew, callsSole, connect, type Stack, startStack } from '../harness.js';
import { hand } from './hand.js';

const pad = 'p'.repeat(200);
/** How a served event may be written: header, name, id of the acknowledgement or none. */
const forms: [what: string, text: (body: string) => string, ack: string | undefined][] = [
  ['plain', (body) => `421["call-offer",${body}]`, '431'],
  ['an escape in the name', (body) => `422["call\\u002doffer",${body}]`, '432'],
  ['every letter escaped', (body) => `423["${escaped('call-offer')}",${body}]`, '433'],
  ['a slash-escaped payload', (body) => `424["call-offer",${body.replace('"offer":', '"o\\u0066fer":')}]`, '434'],
  ['space around', (body) => `425[ "call-offer" , ${body} ]`, '435'],
  ['a line break before the name', (body) => `426[\n\t"call-offer",${body}]`, '436'],
  ['the namespace in full', (body) => `42/,7["call-offer",${body}]`, '437'],
  ['an id of 15 digits', (body) => `42999999999999999["call-offer",${body}]`, '43999999999999999'],
  ['an id with zeros before it', (body) => `42008["call-offer",${body}]`, '438'],
  ['a wide header', (body) => `429["call-offer"${' '.repeat(300)},${body}]`, '439'],
  ['no id', (body) => `42["call-offer",${body}]`, undefined],
  ['more arguments', (body) => `4210["call-offer",${body},"${pad}",1,null]`, '4310'],
];
const escaped = (text: string) => [...text].map((c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`).join('');

/** What is no event of ours. */
const others: [what: string, packets: (string | Buffer)[]][] = [
  ['a numeric name', ['42[7,"x"]']],
  ['a name that only begins like ours', ['42["call-offer-of-another-kind",{}]']],
  ['ours in another case', ['42["Call-Offer",{}]']],
  ['ours as an argument', ['42["unknown","call-offer",{}]']],
  ['ours in a namespace that is not named', ['42/presence,["call-offer",{"conversationId":"dm:a:b","offer":"o"}]']],
  ['an unknown event of 100 kB', [`42["unknown","${'x'.repeat(100_000)}"]`]],
];

for (const [table, routes] of Object.entries({ new: callsNew, sole: callsSole })) {
  describe(`names and ids, calls: ${table}`, () => {
    let stack: Stack;
    let b: Client;
    beforeAll(async () => {
      stack = await startStack({ routes });
      b = await connect(stack.proxy.url, 'names-b', { transports: ['websocket'] });
    });
    afterAll(async () => {
      b.close();
      await stack.close();
    });
    const token = (user: string) => JSON.stringify({ token: stack.legacy.tokens.issue({ id: user, name: user }) });

    for (const transport of ['websocket', 'polling']) {
      test.each(forms)(`${transport}: %s is served`, async (what, text, ack) => {
        const user = `names-${transport}-${forms.findIndex(([w]) => w === what)}`;
        const a = await hand(transport, stack.proxy.url, `40${token(user)}`);
        const conversationId = `dm:${user}:names-b`;
        await a.send(text(JSON.stringify({ conversationId, offer: what })));
        if (ack !== undefined) expect(await a.next()).toBe(`${ack}[{"ok":true}]`);
        expect(await b.next('call-offer')).toEqual({ conversationId, offer: what, fromUserId: user });
        expect(stack.legacy.calls.size).toBe(0);
        a.end();
        expect(await b.next('call-ended')).toMatchObject({ conversationId, reason: 'offerer-left' });
      });

      test(`${transport}: with attachments and an escape in the name`, async () => {
        const user = `names-${transport}-binary`;
        const a = await hand(transport, stack.proxy.url, `40${token(user)}`);
        const conversationId = `dm:${user}:names-b`;
        const body = `{"conversationId":"${conversationId}","offer":[{"_placeholder":true,"num":1},{"_placeholder":true,"num":0}]}`;
        await a.send(`452-1["call\\u002doffer",${body}]`, Buffer.from([1]), Buffer.from([2]));
        expect(await a.next()).toBe('431[{"ok":true}]');
        expect(await b.next('call-offer')).toMatchObject({ offer: [Buffer.from([2]), Buffer.from([1])] });
        a.end();
        await b.next('call-ended');
      });

      test.each(others)(`${transport}: %s is as direct`, async (what, packets) => {
        const user = `others-${transport}-${others.findIndex(([w]) => w === what)}`;
        const outcome = async (url: string) => {
          const one = await hand(transport, url, `40${token(user)}`);
          const seen: string[] = [];
          for (const socket of stack.legacy.io.of('/').sockets.values())
            if (socket.data.user.id === user) socket.onAny((...args: unknown[]) => seen.push(JSON.stringify(args)));
          await one.send(...packets);
          await one.send('427["echo","still here"]');
          const end = await one.next();
          one.end();
          return [end, seen];
        };
        const direct = await outcome(stack.legacy.url);
        const proxied = await outcome(stack.proxy.url);
        expect(proxied).toEqual(direct);
      });
    }
  });
}

describe('a candidate ahead of an offer that proves to be the legacy’s', () => {
  let stack: Stack;
  beforeAll(async () => {
    stack = await startStack({ routes: callsNew });
  });
  afterAll(() => stack.close());

  test.each([
    ['/', '427', '427'],
    ['/', '42007', '427'],
    ['/', '42/,007', '427'],
    ['/', '42', undefined],
    ['/calls', '42/calls,007', '42/calls,7'],
  ])('in %s as %s: acknowledged once, here, and the legacy gets it without an id', async (ns, head, ack) => {
    const user = `ahead-${head}`;
    const conversationId = `dm:${user}:nobody-here`;
    const place = ns === '/' ? '' : `${ns},`;
    const token = stack.legacy.tokens.issue({ id: user, name: user });
    const seen: unknown[][] = [];
    stack.legacy.io.of(ns).once('connection', (socket) =>
      socket.onAny((...args: unknown[]) => {
        seen.push(args.map((arg) => (typeof arg === 'function' ? 'acknowledgement' : arg)));
      }),
    );
    const a = await hand('websocket', stack.proxy.url, `40${place}${JSON.stringify({ token })}`);
    const candidate = { conversationId, iceCandidate: 1 };
    await a.send(`${head}["ice-candidate",${JSON.stringify(candidate)}]`);
    if (ack !== undefined) expect(await a.next()).toBe(`${ack.replace('42', '43')}[{"ok":true}]`);
    await a.send(`42${place}8["call-offer",{"conversationId":"${conversationId}","offer":"o"}]`);
    expect(await a.next()).toBe(`43${place}8[{"ok":true}]`);
    await a.send(`42${place}9["call-end",{"conversationId":"${conversationId}"}]`);
    expect(await a.next()).toBe(`43${place}9[{"ok":true}]`);
    expect(seen.map(([name]) => name)).toEqual(['call-offer', 'ice-candidate', 'call-end']);
    expect(seen[1]).toEqual(['ice-candidate', candidate]);
    a.end();
  });
});
