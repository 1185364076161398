// On how many of the living instances a version of the routes is in force: each tells whoever appended one. Knows no Redis and no
// tables; what comes from other instances is checked.
import { z } from 'zod';
import type { Clock, Timer } from '../base/clock.js';
import type { Address } from '../base/ids.js';
import type { Broker, Liveness } from '../cluster/cluster.js';

export interface ConfirmationsOptions {
  readonly broker: Broker;
  readonly liveness: Pick<Liveness, 'address' | 'living' | 'isLiving'>;
  readonly clock: Clock;
  /** Somebody has appended: takes it over where that is not done yet, and answers the version of the log in force here. */
  look(): Promise<number>;
}

const MOST_WAIT_MS = 1_000;
/** Whoever started right when a version was appended was not told of it. */
const ASK_AGAIN_MS = 300;

const bodyShape = z.union([
  /** Asks for an answer to `from`. */
  z.strictObject({ appended: z.int().positive(), from: z.string().min(1).max(200) }),
  z.strictObject({ inForce: z.int().nonnegative(), on: z.string().min(1).max(200) }),
]);
type Body = z.infer<typeof bodyShape>;

export class Confirmations {
  readonly #options: ConfirmationsOptions;
  /** By address of living instances only. */
  readonly #inForce = new Map<string, number>();
  readonly #waiting = new Set<() => void>();

  constructor(options: ConfirmationsOptions) {
    this.#options = options;
    options.broker.on('routes', (body) => this.#came(body));
  }

  /** Tells the others that there is a new version. */
  appended(version: number): void {
    const { broker, liveness } = this.#options;
    broker.sendAll({ topic: 'routes', body: { appended: version, from: liveness.address } satisfies Body });
  }

  /** This instance has it in force. Resolves as soon as all have, or after a second. */
  async of(version: number): Promise<{ readonly instances: number; readonly of: number }> {
    const { clock, liveness } = this.#options;
    if (this.#missing(version).length > 0) {
      await new Promise<void>((resolve) => {
        const timers: Timer[] = [];
        const done = () => {
          this.#waiting.delete(look);
          for (const timer of timers) timer.cancel();
          resolve();
        };
        const look = () => {
          if (this.#missing(version).length === 0) done();
        };
        this.#waiting.add(look);
        timers.push(
          clock.after(ASK_AGAIN_MS, () => this.#ask(version)),
          clock.after(MOST_WAIT_MS, done),
        );
      });
    }
    const of = liveness.living().length;
    return { instances: Math.max(1, of - this.#missing(version).length), of: Math.max(1, of) };
  }

  /** Living instances that have not said that they have it, or a later one. */
  #missing(version: number): readonly Address[] {
    return this.#options.liveness
      .living()
      .filter(({ self, address }) => !self && (this.#inForce.get(address) ?? 0) < version)
      .map(({ address }) => address);
  }

  #ask(version: number): void {
    const { broker, liveness } = this.#options;
    for (const address of this.#missing(version)) {
      broker.send(address, { topic: 'routes', body: { appended: version, from: liveness.address } satisfies Body });
    }
    // The living are as of the last renewal; one that died meanwhile is waited for no longer.
    for (const look of this.#waiting) look();
  }

  #came(body: unknown): void {
    const read = bodyShape.safeParse(body);
    // Of another version of sigfig: it finds out by looking, as it would without a message.
    if (!read.success) return;
    const { broker, liveness, look } = this.#options;
    if ('inForce' in read.data) {
      const { on, inForce } = read.data;
      if (!liveness.isLiving(on as Address)) return;
      for (const address of this.#inForce.keys()) {
        if (!liveness.isLiving(address as Address)) this.#inForce.delete(address);
      }
      this.#inForce.set(on, inForce);
      for (const waiting of this.#waiting) waiting();
      return;
    }
    const { from } = read.data;
    void look().then((inForce) => {
      if (!liveness.isLiving(from as Address)) return;
      broker.send(from as Address, { topic: 'routes', body: { inForce, on: liveness.address } satisfies Body });
    });
  }
}
