// What forwarding a packet costs must not depend on the table, on calls, or on who looks on. `npm run bench:routes`
// measures it; this counts what a forwarded packet asks for, which is nothing.
import type { IncomingMessage } from 'node:http';
import { expect, test } from 'vitest';
import { manualClock } from '../../src/base/clock.js';
import type { UserId } from '../../src/base/ids.js';
import { alone } from '../../src/cluster/alone.js';
import type { Outgoing } from '../../src/protocol/packet.js';
import { parsePacket } from '../../src/protocol/socketio.js';
import { BrowserSplice, LegacySplice } from '../../src/protocol/splice.js';
import { createConnections } from '../../src/proxy/connection.js';
import { Registry } from '../../src/proxy/registry.js';
import { parseRouteTable } from '../../src/routing/table.js';
import { Signaling } from '../../src/signaling/signaling.js';
import { memorySessionStore } from '../../src/store/memory.js';
import { recordedSignals } from '../../src/telemetry/signals.js';

const frame = (text: string, masked: boolean): Buffer => {
  const payload = Buffer.from(text);
  const head = [
    0x81,
    (masked ? 0x80 : 0) | 126,
    payload.length >> 8,
    payload.length & 255,
    ...(masked ? [0, 0, 0, 0] : []),
  ];
  return Buffer.concat([Buffer.from(head), payload]);
};

/** 200 events: the 8 of a call in 25 namespaces. */
function fullTable() {
  const lines = Array.from(
    { length: 25 },
    (_, n) =>
      `  /app${n}: { call-lifecycle: { mode: canary, percent: ${n} }, ice-candidate: new, call-renegotiation: new }`,
  );
  const parsed = parseRouteTable(`namespaces:\n${lines.join('\n')}\n`, 'routes.yaml');
  if (!parsed.ok) throw new Error(parsed.problems.join('\n'));
  return parsed.table;
}

test('a packet that is no call event asks nothing of table, service or telemetry, in either direction, even in mid-call', () => {
  const table = fullTable();
  const signals = recordedSignals();
  const clock = manualClock();
  const registry = new Registry();
  let asked = 0;
  const signaling = new Signaling({
    store: memorySessionStore(),
    delivery: registry,
    cluster: alone(registry, 'test'),
    signals,
    clock,
    memberships: {
      cached: () => undefined,
      own: () => undefined,
      ask: () => Promise.resolve({ kind: 'not-participant' }),
    },
    routes: () => {
      asked++;
      return table;
    },
    newId: () => 'call-1',
  });
  const connections = createConnections({
    services: [signaling],
    registry,
    verifier: { verify: (token) => ({ ok: true, user: token as UserId }) },
    tokenFrom: [{ from: 'auth', name: 'token' }],
    signals,
    clock,
  });
  const owner = connections.open({ url: '/', headers: {} } as IncomingMessage);
  const toLegacy: Buffer[] = [];
  const toBrowser: Buffer[] = [];
  let shown = 0;
  const up = new BrowserSplice(
    {
      pass: (bytes) => void toLegacy.push(bytes),
      packet(packet) {
        shown++;
        return owner.fromBrowser(packet);
      },
      foreign: () => expect.unreachable('foreign'),
    },
    owner.interest,
    { maxPayload: 1_000_000, counters: signals.counters },
  );
  const down = new LegacySplice(
    {
      pass: (bytes) => void toBrowser.push(bytes),
      packet(packet) {
        shown++;
        return (owner.fromLegacy(packet) as Outgoing | undefined) ?? 'pass';
      },
    },
    owner.legacyInterest,
    { watching: () => owner.watching(), counters: signals.counters },
  );
  owner.attach({
    kind: 'websocket',
    send: (packets) => void down.inject(packets),
    forward: (packet) => void up.inject(packet),
    end: () => undefined,
  });
  // A socket in a namespace of the table, and a call of the legacy's, so that all that looks is looking.
  up.write(frame('40/app0,{"token":"alice"}', true));
  down.write(frame('40/app0,{"sid":"s1"}', false));
  up.write(frame('42/app0,1["call-offer",{"conversationId":"dm:alice:bob","sdp":"v=0"}]', true));
  expect(
    owner.fromBrowser(parsePacket('42/app0,2["call-answer",{"conversationId":"dm:alice:bob","sdp":"v=0"}]', [])!),
  ).toBe('pass');
  expect(asked).toBeGreaterThan(0);

  const before = { asked, shown, told: signals.events.length, passed: [toLegacy.length, toBrowser.length] };
  const chat = (n: number) => `42/app0,["chat-message",{"n":${n},"text":"${'x'.repeat(160)}"}]`;
  const acknowledgement = (n: number) => `43/app0,${1_000 + n}[{"ok":true,"text":"${'x'.repeat(160)}"}]`;
  for (let n = 0; n < 500; n++) {
    for (const text of [chat(n), acknowledgement(n)]) {
      const [sent, answered] = [frame(text, true), frame(text, false)];
      up.write(sent);
      down.write(answered);
      // Not a copy: the very bytes that came.
      expect(toLegacy.at(-1)).toBe(sent);
      expect(toBrowser.at(-1)).toBe(answered);
    }
  }
  expect({ asked, shown, told: signals.events.length }).toEqual({
    asked: before.asked,
    shown: before.shown,
    told: before.told,
  });
  expect([toLegacy.length, toBrowser.length]).toEqual(before.passed.map((n) => n + 1_000));
  expect(signals.counters.forwardedUp).toBeGreaterThanOrEqual(1_000);
  expect(signals.counters.forwardedDown).toBeGreaterThanOrEqual(1_000);
});
