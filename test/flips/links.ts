// What lies between browser, proxy and legacy: queues that keep their order, and of which a test chooses the next one to move.
// Knows nothing of packets.

export interface Link<T> {
  push(item: T): void;
  /** Nothing more comes out of it, and nothing goes in. */
  cut(): void;
}

export class Links {
  readonly #links = new Set<{ readonly waiting: unknown[]; held(): boolean; moveOne(): void }>();

  open<T>(arrives: (item: T) => void, held: () => boolean = () => false): Link<T> {
    const waiting: T[] = [];
    const link = {
      waiting,
      held,
      moveOne: () => arrives(waiting.shift() as T),
    };
    this.#links.add(link);
    return {
      push: (item) => {
        if (this.#links.has(link)) waiting.push(item);
      },
      cut: () => {
        this.#links.delete(link);
        waiting.length = 0;
      },
    };
  }

  /** Moves the first item of one of the links where something waits, and is not held; `pick` says of which. False where none does. */
  move(pick: number): boolean {
    const busy = [...this.#links].filter(({ waiting, held }) => waiting.length > 0 && !held());
    busy[pick % busy.length]?.moveOne();
    return busy.length > 0;
  }
}
