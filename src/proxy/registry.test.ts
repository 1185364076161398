import { describe, expect, it } from 'vitest';
import type { ConnectionNumber, Namespace, SocketId, UserId } from '../base/ids.js';
import type { Peer } from '../base/service.js';
import { type Connected, Registry } from './registry.js';

const peer = (connection: number, ns: string, user?: string): Peer => ({
  ref: { ns: ns as Namespace, id: `s${connection}${ns}` as SocketId, connection: connection as ConnectionNumber },
  user: user as UserId | undefined,
  token: undefined,
});
const connected = (number: number): Connected => ({
  number: number as ConnectionNumber,
  transport: null,
  peer: () => undefined,
  sockets: () => [],
  recoverable: () => false,
});

describe('figures', () => {
  it('count users once, however many sockets and namespaces they have', () => {
    const registry = new Registry();
    const peers = [
      peer(1, '/', 'alice'),
      peer(2, '/', 'alice'),
      peer(2, '/calls', 'alice'),
      peer(3, '/calls', 'bob'),
      peer(4, '/'),
      peer(5, '/'),
    ];
    for (let n = 1; n <= 5; n++) registry.open(connected(n));
    for (const one of peers) registry.add(one);
    expect(registry.figures()).toEqual({
      connections: 5,
      foreign: 0,
      users: 2,
      namespaces: new Map([
        ['/', { users: 1, unverified: 2 }],
        ['/calls', { users: 2, unverified: 0 }],
      ]),
    });
    expect([['/'], ['/calls'], ['/', '/calls'], ['/none'], []].map((some) => registry.usersIn(some))).toEqual([
      1, 2, 2, 0, 0,
    ]);
    for (const one of peers) registry.remove(one);
    expect(registry.figures()).toMatchObject({ users: 0, namespaces: new Map() });
  });

  it('keep a user whose other socket stays, and take a leave told twice once', () => {
    const registry = new Registry();
    const [first, second] = [peer(1, '/', 'alice'), peer(2, '/', 'alice')];
    registry.add(first);
    registry.add(second);
    registry.remove(first);
    registry.remove(first);
    expect(registry.figures().users).toBe(1);
    registry.remove(second);
    registry.remove(second);
    expect(registry.figures()).toMatchObject({ users: 0, namespaces: new Map() });
  });

  it('count a connection with a foreign parser while it is open', () => {
    const registry = new Registry();
    const connection = connected(1);
    registry.foreign(connection);
    expect(registry.figures().foreign).toBe(0);
    registry.open(connection);
    registry.foreign(connection);
    registry.foreign(connection);
    expect(registry.figures().foreign).toBe(1);
    registry.close(connection);
    expect(registry.figures()).toMatchObject({ connections: 0, foreign: 0 });
  });
});
