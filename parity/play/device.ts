// A device of a party: its connection of the moment, former ones that a silence left open, and everything it received
// over all of them, in order. Knows nothing of steps.
import type { DeviceSpec } from '../scenario.js';
import type { Connection } from './connection.js';
import { Problem, within } from './problem.js';
import type { Entry } from './transcript.js';

export class Device {
  readonly spec: DeviceSpec;
  readonly entries: Entry[] = [];
  /** Every connection that it ever had, the one of the moment last. */
  readonly connections: Connection[] = [];
  /** An offer went out unacknowledged: what it leads to may still wait for a lookup. */
  lookingUp = false;
  /** Acknowledgements that no step waits for. */
  readonly later: Promise<unknown>[] = [];
  readonly #waited = new Set<Entry>();
  readonly #wake = new Set<() => void>();

  readonly #keep: (entry: Entry) => Entry | undefined;

  /** `keep` returns what is written down of an entry, undefined for nothing. */
  constructor(spec: DeviceSpec, keep: (entry: Entry) => Entry | undefined = (entry) => entry) {
    this.spec = spec;
    this.#keep = keep;
  }

  readonly note = (received: Entry): void => {
    const entry = this.#keep(received);
    if (!entry) return;
    this.entries.push(entry);
    for (const wake of [...this.#wake]) wake();
  };

  get connection(): Connection {
    const connection = this.connections.at(-1);
    if (!connection) throw new Problem(`${this.spec.name} is not connected yet; a "connect" step does that`);
    return connection;
  }

  /** For the steps in which it acts. */
  get live(): Connection {
    const { connection } = this;
    if (!connection.connected || connection.silenced) {
      throw new Problem(`${this.spec.name} has no connection here; a "connect" step gives it a fresh one`);
    }
    return connection;
  }

  /** The connection before the one of the moment, still open. */
  get old(): Connection {
    const old = this.connections.at(-2);
    if (!old) throw new Problem(`${this.spec.name} has no former connection`);
    return old;
  }

  /** The next event of this name that no earlier wait has taken. */
  async wait(name: string, ms: number): Promise<void> {
    const found = (): boolean => {
      const entry = this.entries.find((one) => isNamed(one, name) && !this.#waited.has(one));
      if (entry) this.#waited.add(entry);
      return entry !== undefined;
    };
    if (found()) return;
    let wake: (() => void) | undefined;
    const come = new Promise<void>((resolve) => {
      wake = () => {
        if (found()) resolve();
      };
      this.#wake.add(wake);
    });
    try {
      await within(ms, `${this.spec.name} gets ${name}`, come);
    } finally {
      if (wake) this.#wake.delete(wake);
    }
  }
}

const isNamed = (entry: Entry, name: string): boolean =>
  entry.kind === 'disconnected' ? name === 'disconnected' : entry.kind === 'event' && entry.name === name;
