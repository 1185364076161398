// The only instance: everybody who is connected is connected here, nothing expires, and there is nobody to tell. The driver where
// no Redis is given. Knows the sockets from whoever holds them.
import type { Address, InstanceId, Namespace, SocketRef, UserId } from '../base/ids.js';
import type { Cluster, InstanceInfo } from './cluster.js';

/** The sockets that are connected here. */
export interface LocalSockets {
  socketsOf(ns: Namespace, user: UserId): readonly SocketRef[];
  isConnected(ref: SocketRef): boolean;
}

export function alone(sockets: LocalSockets, name: string): Cluster {
  const address = name as Address;
  const id = name as InstanceId;
  let describe = (): InstanceInfo => ({});
  const nothing = (): void => undefined;
  return {
    presence: {
      add: nothing,
      remove: nothing,
      peek: (ns, user) => sockets.socketsOf(ns, user),
      socketsOf: async (ns, user) => sockets.socketsOf(ns, user),
      isConnected: (ref) => sockets.isConnected(ref),
    },
    broker: { send: nothing, sendAll: nothing, on: nothing },
    liveness: {
      address,
      id,
      mayAct: () => true,
      well: () => true,
      leads: () => true,
      living: () => [{ id, address, self: true, info: describe(), leaseAgeMs: 0 }],
      isLiving: (other) => other === address,
      isLivingId: (other) => other === id,
      describe(info) {
        describe = info;
      },
      renew: async () => undefined,
      onDead: nothing,
      onFenced: nothing,
      onBack: nothing,
      leave: async () => undefined,
    },
    close: async () => undefined,
  };
}
