// Which calls each socket began, oldest first, so that a browser that begins more than anybody calls makes its own be
// forgotten and nobody else's. Knows nothing of what a call is.

export class BegunBy<Call> {
  readonly #bySocket = new Map<string, Set<Call>>();
  readonly #socketOf = new Map<Call, string>();

  add(socket: string, call: Call): void {
    const all = this.#bySocket.get(socket);
    if (all) all.add(call);
    else this.#bySocket.set(socket, new Set([call]));
    this.#socketOf.set(call, socket);
  }

  /** The first one that this socket began and that is still there, where there are at least so many. */
  oldest(socket: string, least: number): Call | undefined {
    const all = this.#bySocket.get(socket);
    return all && all.size >= least ? all.values().next().value : undefined;
  }

  delete(call: Call): void {
    const socket = this.#socketOf.get(call);
    if (socket === undefined) return;
    this.#socketOf.delete(call);
    const all = this.#bySocket.get(socket);
    all?.delete(call);
    if (all?.size === 0) this.#bySocket.delete(socket);
  }
}
