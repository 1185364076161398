import type { IncomingMessage } from 'node:http';
import { describe, expect, test } from 'vitest';
import { manualClock } from '../base/clock.js';
import type { Address } from '../base/ids.js';
import type { Acknowledged, InboundEvent, Routed, Service } from '../base/service.js';
import { mostAckWaitMs } from '../base/service.js';
import type { Outgoing, Packet } from '../protocol/packet.js';
import { parsePacket } from '../protocol/socketio.js';
import { recordedSignals } from '../telemetry/signals.js';
import { type ConnectionDeps, createConnections } from './connection.js';
import { Registry } from './registry.js';
import type { PacketOwner } from './transport.js';

const packet = (text: string, attachments: readonly Buffer[] = []): Packet => parsePacket(text, attachments)!;

/** One connection with a socket in `/` and `/app`, and a service that routes as the test says. */
function connected(route: (event: InboundEvent) => Routed, more: Partial<ConnectionDeps> = {}) {
  const service: Service = {
    name: 'test',
    events: new Map([['ask', 'lifecycle']]),
    watched: new Set(),
    watching: () => false,
    route,
    passed: () => undefined,
    connected: () => undefined,
    disconnected: () => undefined,
    owns: () => false,
  };
  const signals = recordedSignals();
  const clock = manualClock();
  const connections = createConnections({
    services: [service],
    registry: new Registry(),
    verifier: { verify: () => ({ ok: false, why: 'not asked for' }) },
    tokenFrom: [],
    signals,
    clock,
    ...more,
  });
  const owner: PacketOwner = connections.open({ url: '/', headers: {} } as IncomingMessage);
  const forwarded: string[] = [];
  const sent: string[] = [];
  owner.attach({
    kind: 'websocket',
    send: (packets) => void sent.push(...packets.map(({ text }) => text)),
    forward: ({ text }) => void forwarded.push(text),
    end: () => undefined,
  });
  for (const ns of ['', '/app,']) owner.fromLegacy(packet(`40${ns}{"sid":"${ns}s"}`));
  return { owner, signals, clock, forwarded, sent };
}

const legacy = (acknowledged?: Acknowledged): Routed => ({
  decision: { path: 'legacy', because: 'route' },
  ...(acknowledged ? { acknowledged } : {}),
});
const textOf = async (passing: ReturnType<PacketOwner['fromLegacy']>): Promise<string | undefined> =>
  ((await passing) as Outgoing | undefined)?.text;

describe('the acknowledgement of an event that goes to the legacy', () => {
  test('is asked for by the service, by namespace and id, and replaced by what it answers', async () => {
    const seen: unknown[] = [];
    const { owner } = connected(({ peer }) =>
      legacy((args) => {
        seen.push([peer.ref.ns, ...args]);
        return [[...(args[0] as unknown[]), 'ours']];
      }),
    );
    expect(owner.legacyInterest.awaiting()).toBe(false);
    expect(owner.fromBrowser(packet('42/app,7["ask",1]'))).toBe('pass');
    expect(owner.legacyInterest.awaiting()).toBe(true);
    expect([owner.legacyInterest.acknowledgement('/app', 7), owner.legacyInterest.acknowledgement('/', 7)]).toEqual([
      true,
      false,
    ]);
    expect(await textOf(owner.fromLegacy(packet('43/app,7[["theirs"]]')))).toBe('43/app,7[["theirs","ours"]]');
    expect(seen).toEqual([['/app', ['theirs']]]);
    expect(owner.legacyInterest.awaiting()).toBe(false);
    expect(await textOf(owner.fromLegacy(packet('43/app,7[["theirs"]]')))).toBeUndefined();
  });

  test('attachments of its arguments stay', async () => {
    const { owner } = connected(() => legacy((args) => [...args, 'ours']));
    owner.fromBrowser(packet('427["ask"]'));
    const passing = await owner.fromLegacy(packet('461-7[{"_placeholder":true,"num":0}]', [Buffer.from('a')]));
    expect(passing).toEqual({ text: '461-7[{"_placeholder":true,"num":0},"ours"]', attachments: [Buffer.from('a')] });
  });

  test('nobody waits where the browser asked for none, or the service does not', () => {
    const { owner } = connected(({ ackRequested }) => legacy(ackRequested ? undefined : () => expect.unreachable()));
    owner.fromBrowser(packet('42["ask"]'));
    owner.fromBrowser(packet('427["ask"]'));
    expect(owner.legacyInterest.awaiting()).toBe(false);
  });

  test('of an event that was taken and given back too, unless it was acknowledged here', async () => {
    const taken: InboundEvent[] = [];
    const { owner, forwarded, sent } = connected((event) => ({
      decision: { path: 'new', because: 'held' },
      serve: () => void taken.push(event),
    }));
    for (const text of ['421["ask"]', '422["ask"]']) (owner.fromBrowser(packet(text)) as () => void)();
    taken[0]!.forward(() => ['one']);
    taken[1]!.ack('here');
    taken[1]!.forward(() => expect.unreachable());
    expect([forwarded, sent]).toEqual([['421["ask"]', '42["ask"]'], ['432["here"]']]);
    expect(await textOf(owner.fromLegacy(packet('431[]')))).toBe('431["one"]');
    expect(owner.legacyInterest.awaiting()).toBe(false);
  });

  test.each([
    ['the browser leaves', (owner: PacketOwner) => owner.fromBrowser(packet('41'))],
    ['the legacy ends the socket', (owner: PacketOwner) => owner.fromLegacy(packet('41'))],
    ['the connection closes', (owner: PacketOwner) => owner.closed('browser')],
    ['the socket is another', (owner: PacketOwner) => owner.fromLegacy(packet('40{"sid":"other"}'))],
  ])('passes as it came where %s', async (_, leave) => {
    const { owner } = connected(() => legacy(() => new Promise(() => undefined)));
    owner.fromBrowser(packet('427["ask"]'));
    owner.fromBrowser(packet('428["ask"]'));
    const passing = textOf(owner.fromLegacy(packet('437[]')));
    leave(owner);
    expect(await passing).toBeUndefined();
    expect(owner.legacyInterest.awaiting()).toBe(false);
  });

  test('passes as it came where the service does not settle, fails, or answers what can’t be written', async () => {
    const answers: Acknowledged[] = [
      () => new Promise(() => undefined),
      () => Promise.reject(new Error('no')),
      () => [1n],
      async () => [1n],
    ];
    const { owner, clock, signals } = connected(({ args }) => legacy(answers[args[0] as number]!));
    for (const i of answers.keys()) owner.fromBrowser(packet(`42${i}["ask",${i}]`));
    const passing = answers.map((_, i) => textOf(owner.fromLegacy(packet(`43${i}[]`))));
    expect(await Promise.all(passing.slice(1))).toEqual([undefined, undefined, undefined]);
    clock.advance(mostAckWaitMs + 300);
    expect(await passing[0]).toBeUndefined();
    const told = signals.events.filter(({ what }) => what === 'bound' || what === 'internalError');
    expect(told.map(({ what }) => what).sort()).toEqual(['bound', 'internalError', 'internalError', 'internalError']);
  });

  test('arguments that are no list pass', async () => {
    const { owner } = connected(() => legacy(() => expect.unreachable()));
    owner.fromBrowser(packet('427["ask"]'));
    expect(await textOf(owner.fromLegacy(packet('437{"a":1}')))).toBeUndefined();
  });
});

describe('among several processes', () => {
  test('each socket says where it is, by a number that no other process gives', () => {
    const seen: InboundEvent[] = [];
    const { owner } = connected(
      (event) => {
        seen.push(event);
        return legacy();
      },
      { at: 'here' as Address, before: 3 * 2 ** 32 },
    );
    owner.fromBrowser(packet('42["ask"]'));
    expect(seen[0]?.peer.ref).toEqual({ ns: '/', id: 's', connection: 3 * 2 ** 32 + 1, at: 'here' });
    expect(owner.sockets().map(({ ns, at }) => [ns, at])).toEqual([
      ['/', 'here'],
      ['/app', 'here'],
    ]);
    owner.closed('drain');
    expect(owner.sockets()).toEqual([]);
  });

  test('alone nothing is said of a place', () => {
    const { owner } = connected(() => legacy());
    expect(owner.sockets()[0]).toEqual({ ns: '/', id: 's', connection: 1 });
  });
});
