// Several instances stand behind one population: how it is proven that what one of them had for another has arrived there.
// For each two of them a call of the runner's own, a renegotiation of which goes there and back: what an instance sends to
// another comes in the order of sending. Knows nothing of scenarios.
import { Connection } from './connection.js';
import { Problem, within } from './problem.js';

export interface BetweenOptions {
  /** Of each instance. */
  readonly urls: readonly string[];
  readonly patienceMs: number;
  signIn(name: string): Promise<{ readonly id: string; readonly token: string | undefined }>;
  conversation(a: string, b: string): Promise<string>;
}

interface End {
  readonly connection: Connection;
  readonly user: string;
  next(event: string): Promise<void>;
}

interface Link {
  readonly ends: readonly [End, End];
  readonly conversationId: string;
}

export class Between {
  readonly #options: BetweenOptions;
  readonly #links = new Map<string, Link>();
  #made = 0;
  #rounds = 0;
  #running: Promise<void> | undefined;
  #next: Promise<void> | undefined;

  constructor(options: BetweenOptions) {
    this.#options = options;
  }

  /** A round that begins after now: one that is under way proves nothing, and all who ask meanwhile share the next. */
  round(): Promise<void> {
    if (this.#next) return this.#next;
    const before = this.#running ?? Promise.resolve();
    const next = before
      .catch(() => undefined) // whoever asked for it was told
      .then(() => {
        this.#running = next;
        this.#next = undefined;
        return this.#all();
      });
    this.#next = next;
    return next;
  }

  async close(): Promise<void> {
    await Promise.all(
      [...this.#links.values()].flatMap(({ ends }) => ends.map(({ connection }) => connection.close())),
    );
    this.#links.clear();
  }

  async #all(): Promise<void> {
    const { urls } = this.#options;
    const pairs = urls.flatMap((a, i) => urls.slice(i + 1).map((b) => [a, b] as const));
    await Promise.all(pairs.map(([a, b]) => this.#thereAndBack(a, b)));
  }

  async #thereAndBack(a: string, b: string): Promise<void> {
    const key = `${a} ${b}`;
    const known = this.#links.get(key);
    const usable = known?.ends.every(({ connection }) => connection.connected);
    if (known && !usable) await Promise.all(known.ends.map(({ connection }) => connection.close()));
    const link = known && usable ? known : await this.#call(a, b);
    this.#links.set(key, link);
    try {
      await this.#renegotiate(link);
    } catch (error) {
      // The next round has a call of its own: this one may wait for an answer for ever.
      this.#links.delete(key);
      await Promise.all(link.ends.map(({ connection }) => connection.close()));
      throw error;
    }
  }

  async #renegotiate({ ends: [from, to], conversationId }: Link): Promise<void> {
    // Never twice the same: that would be a client's retry.
    const n = `parity ${++this.#rounds}`;
    await Promise.all([
      to.next('call-renegotiate-offer'),
      this.#ok(from, 'call-renegotiate-offer', { conversationId, offer: n }),
    ]);
    await Promise.all([
      from.next('call-renegotiate-answer'),
      this.#ok(to, 'call-renegotiate-answer', { conversationId, answer: n }),
    ]);
  }

  async #call(a: string, b: string): Promise<Link> {
    const n = ++this.#made;
    const ends = (await Promise.all([this.#end(a, `from-${n}`), this.#end(b, `to-${n}`)])) as [End, End];
    const conversationId = await this.#options.conversation(ends[0].user, ends[1].user);
    await Promise.all([
      ends[1].next('call-offer'),
      this.#ok(ends[0], 'call-offer', { conversationId, offer: 'parity' }),
    ]);
    await Promise.all([
      ends[0].next('call-answer'),
      this.#ok(ends[1], 'call-answer', { conversationId, answer: 'parity' }),
    ]);
    return { ends, conversationId };
  }

  async #end(url: string, name: string): Promise<End> {
    const { patienceMs } = this.#options;
    const { id, token } = await this.#options.signIn(name);
    const waiting = new Map<string, () => void>();
    const connection = new Connection(
      {
        url,
        namespace: '/',
        transport: 'websocket',
        token,
        retries: undefined,
        ackTimeout: undefined,
        device: `the probe at ${url}`,
        patienceMs,
      },
      (entry) => {
        if (entry.kind === 'event') waiting.get(entry.name)?.();
      },
    );
    if (!(await connection.connect())) throw new Problem(`a probe between instances was not let in by ${url}`);
    return {
      connection,
      user: id,
      next(event) {
        const come = new Promise<void>((resolve) => waiting.set(event, resolve));
        return within(patienceMs, `${event} of a call between two instances comes to ${url}`, come);
      },
    };
  }

  async #ok(end: End, event: string, payload: object): Promise<void> {
    const what = `${event} of a call between two instances is acknowledged by ${end.connection.options.url}`;
    const answer = await within(this.#options.patienceMs, what, end.connection.ask(event, [payload]));
    const [said] = answer ?? [];
    const refused = Array.isArray(said) ? undefined : (said as { ok?: unknown; error?: unknown } | undefined);
    if (refused && refused.ok !== true) throw new Problem(`${what}: ${String(refused.error)}`);
  }
}
