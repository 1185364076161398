// One call from ring to end, refusals included, as a browser sees it on either path.
import { Inbox, Polling, Ws } from './clients.js';
import { type Note, type Place, same } from './same.js';

/** A browser on either transport that shows packets; acknowledgements and events in the order in which they came. */
interface Browser {
  send(...packets: string[]): Promise<void>;
  next(): Promise<string>;
  close(): Promise<void>;
}

async function onWebSocket(place: Place, user: string): Promise<Browser> {
  const ws = await Ws.open(place.url);
  ws.send(`40{"token":"${place.token(user)}"}`);
  await ws.take(2);
  return {
    send: async (...packets) => ws.send(...packets),
    next: () => ws.next(),
    async close() {
      ws.close();
      await ws.rest();
    },
  };
}

async function onPolling(place: Place, user: string): Promise<Browser> {
  const polling = await Polling.open(place.url);
  await polling.post(`40{"token":"${place.token(user)}"}`);
  await polling.packets(1);
  const inbox = new Inbox<string>();
  let open = true;
  const loop = (async () => {
    while (open) {
      const answer = await polling.get();
      if (answer.status !== 200) return;
      for (const packet of answer.text.split('\x1e')) if (!/^[126]$/.test(packet)) inbox.put(packet);
    }
  })();
  return {
    async send(...packets) {
      await polling.post(packets.join('\x1e'));
    },
    next: () => inbox.next(),
    async close() {
      open = false;
      await polling.post('1');
      await loop;
    },
  };
}

const C = '"conversationId":"dm:ada:bob"';

async function call(place: Place, note: Note, open: (place: Place, user: string) => Promise<Browser>): Promise<void> {
  const [ada, bob, bob2, eve] = (await Promise.all(['ada', 'bob', 'bob', 'eve'].map((user) => open(place, user)))) as [
    Browser,
    Browser,
    Browser,
    Browser,
  ];
  const step = async (who: Browser, packet: string, ...expected: [string, Browser][]): Promise<void> => {
    await who.send(packet);
    for (const [name, browser] of expected) note(`${packet.slice(0, 60)} → ${name}`, await browser.next());
  };
  await step(eve, `421["call-offer",{${C},"offer":{"type":"offer","sdp":"x"}}]`, ['eve', eve], ['eve', eve]);
  await step(ada, '421["call-offer",5]', ['ada', ada], ['ada', ada]);
  await step(ada, `422["call-offer",{${C}}]`, ['ada', ada], ['ada', ada]);
  await step(ada, '42["call-answer",{}]', ['ada', ada]);
  await step(bob, `421["call-answer",{${C},"answer":{}}]`, ['bob', bob], ['bob', bob]);
  await step(bob, `422["call-end",{${C}}]`, ['bob', bob], ['bob', bob]);
  await step(
    ada,
    `423["call-offer",{${C},"offer":{"type":"offer","sdp":"v=0 \\u00fc 😀","n":1e3}}]`,
    ['ada', ada],
    ['bob', bob],
    ['bob2', bob2],
  );
  await step(ada, `424["ice-candidate",{${C},"iceCandidate":{"candidate":"a1"},"didIOffer":true}]`, ['ada', ada]);
  await step(ada, `425["ice-candidate",{${C},"iceCandidate":{"candidate":"a2"}}]`, ['ada', ada]);
  await step(bob, `423["ice-candidate",{${C},"iceCandidate":{"candidate":"b1"}}]`, ['bob', bob], ['ada', ada]);
  await step(eve, `422["ice-candidate",{${C},"iceCandidate":{"candidate":"e1"}}]`, ['eve', eve], ['eve', eve]);
  await step(bob, `424["call-offer",{${C},"offer":{}}]`, ['bob', bob], ['bob', bob]);
  await step(ada, `426["call-answer",{${C},"answer":{}}]`, ['ada', ada], ['ada', ada]);
  await step(
    bob,
    `425["call-answer",{${C},"answer":{"type":"answer","sdp":"y"}}]`,
    ['bob', bob],
    ['ada', ada],
    ['bob2', bob2],
  );
  await step(bob, `42["ice-candidate",{${C},"iceCandidate":{"candidate":"b2"}}]`, ['ada', ada]);
  await step(bob2, `421["ice-candidate",{${C},"iceCandidate":{"candidate":"b3"}}]`, ['bob2', bob2], ['bob2', bob2]);
  await step(bob, `426["call-renegotiate-offer",{${C},"offer":{"r":1}}]`, ['bob', bob], ['ada', ada]);
  await step(ada, `427["call-renegotiate-offer",{${C},"offer":{"r":2}}]`, ['ada', ada], ['ada', ada]);
  await step(ada, `428["call-renegotiate-answer",{${C},"answer":{"r":1}}]`, ['ada', ada], ['bob', bob]);
  await step(ada, `429["call-rejoin-offer",{${C},"offer":{}}]`, ['ada', ada], ['ada', ada]);
  await bob.close();
  note('bob is gone → ada', await ada.next());
  await step(bob2, `422["call-rejoin-offer",{${C},"offer":{"j":1}}]`, ['bob2', bob2], ['ada', ada]);
  await step(bob2, `423["ice-candidate",{${C},"iceCandidate":{"candidate":"j1"}}]`, ['bob2', bob2]);
  await step(ada, `4210["call-rejoin-answer",{${C},"answer":{"j":1}}]`, ['ada', ada], ['bob2', bob2]);
  await step(eve, `423["call-end",{${C}}]`, ['eve', eve], ['eve', eve]);
  await step(bob2, `424["call-end",{${C}}]`, ['bob2', bob2], ['ada', ada]);
  await step(ada, `4211["echo","nothing else came"]`, ['ada', ada]);
  for (const browser of [ada, bob2, eve]) await browser.close();
}

same('over WebSocket', 40, {}, (place, note) => call(place, note, onWebSocket));
same('over polling', 40, {}, (place, note) => call(place, note, onPolling));
