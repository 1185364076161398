// Calls of the legacy's whose parties are not both on this instance: their relays can't be served by either, since neither sees all
// that the legacy delivers, and so they go to the legacy at once. Knows no observed session.
import type { UserId } from '../base/ids.js';
import type { LegacyEvent, Peer } from '../base/service.js';
import { Unavailable } from '../base/unavailable.js';
import type { CallKey } from '../call/session.js';
import type { Cluster } from '../cluster/cluster.js';
import type { Memberships } from '../identity/identity.js';
import { groups } from '../routing/route.js';
import type { RouteTable } from '../routing/table.js';
import type { Signals } from '../telemetry/signals.js';
import { type Told, write } from './told.js';

export interface ElsewhereDeps {
  readonly cluster: Cluster;
  readonly signals: Signals;
  readonly routes: () => RouteTable;
  readonly memberships: Pick<Memberships, 'cached'>;
}

const relays = [groups['ice-candidate'][0], groups['call-renegotiation'][0]] as readonly string[];

export class Elsewhere {
  readonly #deps: ElsewhereDeps;

  constructor(deps: ElsewhereDeps) {
    this.#deps = deps;
  }

  /** An offer was forwarded whose call's relays would be served here: `leave` where its callee is known not to be here alone. */
  forwarded({ ns, conversationId }: CallKey, { user }: Peer, leave: () => void): void {
    const { cluster, memberships } = this.#deps;
    const participants = user && memberships.cached(user, conversationId)?.participants;
    const callee = participants?.find((one) => one !== user);
    // Alone it is found out by what the legacy delivers.
    if (!callee || cluster.presence.peek(ns, callee) !== undefined) return;
    this.#guard(
      cluster.presence.socketsOf(ns, callee).then((sockets) => {
        if (sockets.length === 0 || sockets.some(({ at }) => at !== cluster.liveness.address)) leave();
      }),
    );
  }

  /** The legacy rings somebody here for a call that was not seen to begin: the caller's instance is told. */
  ringsHere({ ns, conversationId }: CallKey, { args }: LegacyEvent): void {
    const { cluster, routes } = this.#deps;
    const caller = (args[0] as Readonly<Record<string, unknown>>).fromUserId;
    if (typeof caller !== 'string' || cluster.presence.peek(ns, caller as UserId) !== undefined) return;
    const table = routes();
    if (!relays.some((event) => table.wants(ns, event, conversationId, caller as UserId).path === 'new')) return;
    const told: Told = { ns, conversationId, callId: 'legacy', version: 0, emits: [], about: 'rings-elsewhere' };
    this.#guard(
      cluster.presence.socketsOf(ns, caller as UserId).then((sockets) => {
        for (const at of new Set(sockets.map((socket) => socket.at))) {
          if (at !== undefined && at !== cluster.liveness.address) {
            cluster.broker.send(at, { topic: 'call', body: write(told) });
          }
        }
      }),
    );
  }

  /** Where nobody can be asked, it shows by what the legacy does not deliver here. */
  #guard(work: Promise<void>): void {
    work.catch((error) => {
      if (!(error instanceof Unavailable)) this.#deps.signals.internalError('looking for the parties of a call', error);
    });
  }
}
