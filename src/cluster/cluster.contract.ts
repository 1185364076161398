// What every driver of the cluster ports must do, alone or among many: run over each by its own test file. Knows no driver.
import { expect, it } from 'vitest';
import type { ConnectionNumber, SocketId, SocketRef } from '../base/ids.js';
import type { Peer } from '../base/service.js';
import type { LocalSockets } from './alone.js';
import { ns, Sockets, until, user } from './cluster.fixture.js';
import type { Cluster } from './cluster.js';

/** `make` gives a cluster of which this is the only instance, over these sockets. */
export function describeCluster(
  make: (sockets: LocalSockets) => Promise<{ readonly cluster: Cluster; close(): Promise<void> }>,
): void {
  const run = (name: string, check: (cluster: Cluster, sockets: Sockets) => Promise<void>): void =>
    void it(name, async () => {
      const sockets = new Sockets();
      const { cluster, close } = await make(sockets);
      try {
        await check(cluster, sockets);
      } finally {
        await close();
      }
    });
  const peerOf = (cluster: Cluster, name: string, id: string, connection: number): Peer => {
    const ref: SocketRef = {
      ns,
      id: id as SocketId,
      connection: connection as ConnectionNumber,
      at: cluster.liveness.address,
    };
    return { ref, user: user(name), token: undefined };
  };

  run('lives, may act and leads', async ({ liveness }) => {
    expect(liveness.mayAct()).toBe(true);
    expect(liveness.well()).toBe(true);
    expect(liveness.leads()).toBe(true);
    expect(liveness.isLiving(liveness.address)).toBe(true);
    expect(liveness.isLivingId(liveness.id)).toBe(true);
    liveness.describe(() => ({ connections: 3 }));
    await liveness.renew();
    expect(liveness.living()).toEqual([
      {
        id: liveness.id,
        address: liveness.address,
        self: true,
        info: { connections: 3 },
        leaseAgeMs: expect.any(Number),
      },
    ]);
  });

  run('knows the sockets that are here', async (cluster, sockets) => {
    const { presence } = cluster;
    const [one, two] = [peerOf(cluster, 'alice', 's1', 1), peerOf(cluster, 'alice', 's2', 2)];
    for (const peer of [one, two]) {
      sockets.add(peer);
      presence.add(peer);
    }
    expect(await presence.socketsOf(ns, user('alice'))).toEqual([one.ref, two.ref]);
    expect([undefined, [one.ref, two.ref]]).toContainEqual(presence.peek(ns, user('alice')));
    expect(await presence.isConnected(one.ref, user('alice'))).toBe(true);
    expect(await presence.socketsOf(ns, user('bob'))).toEqual([]);
    sockets.remove(one);
    presence.remove(one);
    expect(await presence.isConnected(one.ref, user('alice'))).toBe(false);
    expect(await presence.socketsOf(ns, user('alice'))).toEqual([two.ref]);
  });

  run('tells one connection of a socket from another', async (cluster, sockets) => {
    const { presence } = cluster;
    const [old, now] = [peerOf(cluster, 'alice', 's1', 1), peerOf(cluster, 'alice', 's1', 2)];
    for (const peer of [old, now]) {
      sockets.add(peer);
      presence.add(peer);
    }
    sockets.remove(old);
    presence.remove(old);
    expect(await presence.isConnected(old.ref, user('alice'))).toBe(false);
    expect(await presence.isConnected(now.ref, user('alice'))).toBe(true);
  });

  run('tells nobody where there is nobody', async ({ broker }) => {
    const got: unknown[] = [];
    broker.on('t', (body) => got.push(body));
    broker.sendAll({ topic: 't', body: 1 });
    await until('a turn', () => true);
    expect(got).toEqual([]);
  });

  run('may be left', async ({ liveness }) => {
    const told: unknown[] = [];
    liveness.onDead(async (dead) => void told.push(dead));
    liveness.onFenced((was) => told.push(was));
    liveness.onBack((lost) => told.push(lost));
    await liveness.leave();
    expect(told).toEqual([]);
  });
}
