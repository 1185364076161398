// The soak: pairs of polling and upgrading clients chat and call without a pause, half of them through the proxy (calls
// served there), half directly at the same legacy as a control. Nothing may be lost, doubled, reordered or ended through
// the proxy that the control keeps. Not part of the tests: `npm run soak -- --minutes 5 --clients 200 --life 25`.
import { parseArgs } from 'node:util';
import { type Client, callsNew, connect, metric } from '../harness.js';
import { processes, resident } from '../processes.js';

const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '5' },
    clients: { type: 'string', default: '200' },
    life: { type: 'string', default: '25' },
  },
});
const duration = Number(values.minutes) * 60_000;
/** About how long a pair stays connected; seconds. */
const lifeTime = Number(values.life) * 1_000;
const pairsEach = Math.max(1, Math.floor(Number(values.clients) / 4));

interface Tally {
  calls: number;
  chats: number;
  candidates: number;
  reconnects: number;
  lost: number;
  doubled: number;
  reordered: number;
  ended: number;
  errors: number;
}

const tally = (): Tally => ({
  calls: 0,
  chats: 0,
  candidates: 0,
  reconnects: 0,
  lost: 0,
  doubled: 0,
  reordered: 0,
  ended: 0,
  errors: 0,
});

/** Checks that numbers come one after another, each once. */
class Sequence {
  #next = 0;
  readonly #tally: Tally;

  constructor(of: Tally) {
    this.#tally = of;
  }

  see(n: number): void {
    if (n === this.#next) this.#next++;
    else if (n < this.#next) this.#tally.doubled++;
    else {
      this.#tally.reordered++;
      this.#next = n + 1;
    }
  }

  over(sent: number): void {
    if (this.#next < sent) this.#tally.lost += sent - this.#next;
  }
}

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

/** One life of a pair: connect, chat and call for a while, go. Clients that upgrade do so anew in each life. */
async function life(base: string, name: string, upgrade: boolean, until: number, t: Tally): Promise<void> {
  const options = { transports: upgrade ? ['polling', 'websocket'] : ['polling'], timeout: 20_000 };
  const [a, b] = await Promise.all([connect(base, `${name}-a`, options), connect(base, `${name}-b`, options)]);
  t.reconnects += 2;
  let leaving = false;
  for (const { socket } of [a, b]) {
    socket.on('disconnect', (reason) => {
      if (leaving) return;
      t.ended++;
      console.error(`${name} ended: ${reason}`);
    });
  }
  const conversationId = `dm:${name}-a:${name}-b`;
  await Promise.all([a.ask('join-conversation', { conversationId }), b.ask('join-conversation', { conversationId })]);
  let chatting = true;
  const chats = new Sequence(t);
  b.socket.on('chat-message', (m: { text: string }) => chats.see(Number(m.text)));
  const talk = (async () => {
    let sent = 0;
    while (chatting && a.socket.connected) {
      const ack = (await a.ask('chat-message', { conversationId, text: String(sent) })) as { ok: boolean };
      if (!ack.ok) t.errors++;
      sent++;
      t.chats++;
      await pause(20 + Math.random() * 60);
    }
    await b.ask('whoami');
    chats.over(sent);
  })();
  while (Date.now() < until && a.socket.connected && b.socket.connected) await call(a, b, conversationId, t);
  chatting = false;
  await talk;
  leaving = true;
  a.close();
  b.close();
}

async function call(a: Client, b: Client, conversationId: string, t: Tally): Promise<void> {
  const toB = new Sequence(t);
  const toA = new Sequence(t);
  const seeB = (c: { n: number }) => toB.see(c.n);
  const seeA = (c: { n: number }) => toA.see(c.n);
  b.socket.on('ice-candidate', seeB);
  a.socket.on('ice-candidate', seeA);
  const ok = (answer: unknown) => {
    if ((answer as { ok?: boolean }).ok !== true) t.errors++;
  };
  const sdp = 'v=0 '.repeat(300);
  ok(await a.ask('call-offer', { conversationId, offer: { sdp } }));
  await b.next('call-offer');
  let sentA = 0;
  for (; sentA < 8; sentA++) a.socket.emit('ice-candidate', { conversationId, iceCandidate: { n: sentA } });
  // Acknowledged on the path that serves the call: what was sent before it is buffered now.
  ok(await a.ask('ice-candidate', { conversationId, iceCandidate: { n: sentA++ } }));
  const buffered = (await b.ask('call-answer', { conversationId, answer: { sdp } })) as { n: number }[];
  for (const c of buffered) toB.see(c.n);
  await a.next('call-answer');
  let sentB = 0;
  for (; sentB < 9; sentB++) {
    b.socket.emit('ice-candidate', { conversationId, iceCandidate: { n: sentB } });
    a.socket.emit('ice-candidate', { conversationId, iceCandidate: { n: sentA++ } });
    await pause(Math.random() * 15);
  }
  ok(await a.ask('call-renegotiate-offer', { conversationId, offer: { sdp } }));
  await b.next('call-renegotiate-offer');
  ok(await b.ask('call-renegotiate-answer', { conversationId, answer: { sdp } }));
  await a.next('call-renegotiate-answer');
  ok(await b.ask('call-end', { conversationId }));
  await a.next('call-ended');
  // Behind it on each path nothing of this call can follow.
  ok(await b.ask('whoami'));
  toB.over(sentA);
  toA.over(sentB);
  t.candidates += sentA + sentB;
  t.calls++;
  b.socket.off('ice-candidate', seeB);
  a.socket.off('ice-candidate', seeA);
  for (const client of [a, b]) client.forget();
}

async function pair(base: string, name: string, upgrade: boolean, end: number, t: Tally): Promise<void> {
  while (Date.now() < end) {
    const until = Math.min(end, Date.now() + lifeTime * (0.6 + Math.random() * 0.8));
    try {
      await life(base, name, upgrade, until, t);
    } catch (error) {
      t.errors++;
      console.error(`${name}: ${(error as Error).message}`);
    }
  }
}

const all = await processes();
try {
  const legacy = await all.legacy();
  const proxy = await all.proxy(legacy.url, callsNew, ['--log-level', 'warn']);
  const through = tally();
  const direct = tally();
  const end = Date.now() + duration;
  const progress = setInterval(() => {
    console.error(
      `${Math.round((end - Date.now()) / 1000)} s left: ${through.calls} calls through the proxy, ${direct.calls} direct, ` +
        `proxy ${Math.round(resident(proxy.pid) / 1e6)} MB`,
    );
  }, 15_000);
  await Promise.all(
    Array.from({ length: pairsEach }, (_, i) => [
      pair(proxy.url, `through${i}`, i % 2 === 1, end, through),
      pair(legacy.url, `direct${i}`, i % 2 === 1, end, direct),
    ]).flat(),
  );
  clearInterval(progress);
  await pause(1_000);
  const left = {
    connections: await metric(proxy.metrics, 'sigfig_connections'),
    calls: await metric(proxy.metrics, 'sigfig_calls'),
    internalErrors: await metric(proxy.metrics, 'sigfig_internal_errors_total'),
    servedHere: await metric(proxy.metrics, 'sigfig_events_decided_total', { path: 'new' }),
    forwardedOffers: await metric(proxy.metrics, 'sigfig_events_decided_total', {
      path: 'legacy',
      event: 'call-offer',
    }),
  };
  console.log(
    JSON.stringify({ minutes: Number(values.minutes), clients: pairsEach * 4, through, direct, left }, null, 2),
  );
  const faults = (t: Tally) => t.lost + t.doubled + t.reordered + t.ended + t.errors;
  if (faults(through) > faults(direct)) process.exitCode = 1;
} finally {
  await all.close();
}
