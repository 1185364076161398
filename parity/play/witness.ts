// Witnesses: how it is proven that the server has noticed a drop. Just before, the device offers a call to a witness; when
// its connection is noticed to be lost, the witness is told `offerer-left`, and so is everybody else whom the drop
// concerns. Knows nothing of scenarios.
import { Connection } from './connection.js';
import { Problem, within } from './problem.js';

export interface WitnessOptions {
  readonly url: string;
  readonly patienceMs: number;
  /** Signs a witness in; its conversation with another user. */
  signIn(name: string): Promise<{ readonly id: string; readonly token: string | undefined }>;
  conversation(a: string, b: string): Promise<string>;
}

interface Witness {
  readonly connection: Connection;
  readonly user: string;
  /** By conversation: who wants to know that it ended. */
  readonly ended: Map<string, () => void>;
}

/** Resolves when the drop has been noticed; `heartbeat` where only the heartbeat can. */
export type Noticed = () => Promise<void>;

export class Witnesses {
  readonly #options: WitnessOptions;
  readonly #all = new Map<string, Promise<Witness>>();

  constructor(options: WitnessOptions) {
    this.#options = options;
  }

  /**
   * `slot`: devices of one user need different ones. Undefined where this connection can't offer a call (its token has
   * expired, say), so that nothing is proven.
   */
  async watch(slot: number, user: string, connection: Connection): Promise<Noticed | undefined> {
    const witness = await this.#get(slot, connection.options.namespace);
    const conversationId = await this.#options.conversation(user, witness.user);
    const ended = new Promise<void>((resolve) => witness.ended.set(conversationId, resolve));
    const { patienceMs, device } = connection.options;
    const answer = await within(
      patienceMs,
      `${device}'s call to a witness is acknowledged`,
      connection.ask('call-offer', [{ conversationId, offer: 'parity' }]),
    );
    if ((answer?.[0] as { ok?: unknown } | undefined)?.ok !== true) return undefined;
    return () => {
      // A lost poll that was being answered in that moment leaves nothing but the heartbeat; a proxy allows for its own way.
      const heartbeat = connection.silenced || connection.options.transport === 'polling';
      const ms = patienceMs + (heartbeat ? 3 * connection.heartbeatMs : 0);
      return within(ms, `the server has noticed that ${device} is gone`, ended).finally(() =>
        witness.ended.delete(conversationId),
      );
    };
  }

  async #get(slot: number, namespace: string): Promise<Witness> {
    const key = `${namespace} ${slot}`;
    const known = await this.#all.get(key);
    if (known?.connection.connected) return known;
    const created = this.#create(slot, namespace);
    this.#all.set(key, created);
    return created;
  }

  async #create(slot: number, namespace: string): Promise<Witness> {
    const { url, patienceMs } = this.#options;
    const { id, token } = await this.#options.signIn(`witness-${slot}`);
    const ended = new Map<string, () => void>();
    const connection = new Connection(
      {
        url,
        namespace,
        transport: 'websocket',
        token,
        retries: undefined,
        ackTimeout: undefined,
        device: `witness ${slot}`,
        patienceMs,
      },
      (entry) => {
        if (entry.kind !== 'event' || entry.name !== 'call-ended') return;
        ended.get(String((entry.args[0] as { conversationId?: unknown }).conversationId))?.();
      },
    );
    if (!(await connection.connect())) throw new Problem(`witness ${slot} was not let in by ${url}`);
    return { connection, user: id, ended };
  }

  async close(): Promise<void> {
    for (const witness of this.#all.values()) {
      await witness.then(
        ({ connection }) => connection.close(),
        () => undefined, // it never came to be; whoever asked for it was told
      );
    }
  }
}
