// The very same request again (accepted difference 2): a client with `retries` sends an event again under a new
// acknowledgement id when the acknowledgement is late. It is acknowledged as the first one was and does nothing.
// Knows nothing of sessions; it is told which call a request was about.
import type { SocketRef } from '../base/ids.js';

/** Requests remembered for each connection: a call setup is a burst of 20 to 40 messages. */
const perConnection = 64;
/** Of these the answer is a list of candidates, which can be 1 MiB; a client repeats an answer within seconds. */
const mostLists = 4;

interface Request {
  readonly ns: string;
  /** Conversation, event and digest of the payload. */
  readonly what: string;
  /** Repeats that came before the first one was acknowledged; null once it was. */
  waiting: ((answer: unknown) => void)[] | null;
  answer: unknown;
  /** The call that the request was about, once it was served. */
  call: string | null;
  /** Once it was refused: the last arrival before that. */
  refusedAt: number | null;
}

/** A request seen for the first time; its owner settles it exactly once. */
export interface First {
  /** Served: repeats within the same call get this answer too. */
  served(answer: unknown, call: string | null): void;
  /** Refused: repeats that came meanwhile get this answer, later ones are new tries (glare lost, retried, won). */
  refused(answer: unknown): void;
  /** The legacy answers it, and whatever repeats it. */
  givenAway(): void;
}

export class Retries {
  readonly #byConnection = new Map<number, Request[]>();
  #arrivals = 0;

  /** A number for an event that comes in now, perhaps to wait for its turn: `see` is told it then. */
  arrival(): number {
    return ++this.#arrivals;
  }

  /**
   * Null for a repeat, which `ack` then answers, at once or when the first one's answer is there.
   * `call`: the call of this conversation as it stands, live or just ended; a request about an earlier call is no repeat.
   */
  see(
    ref: SocketRef,
    what: string,
    call: string | null,
    arrived: number,
    ack: (answer: unknown) => void,
  ): First | null {
    let requests = this.#byConnection.get(ref.connection);
    if (!requests) {
      requests = [];
      this.#byConnection.set(ref.connection, requests);
    }
    const same = requests.find((r) => r.what === what && r.ns === ref.ns);
    if (same?.waiting) {
      same.waiting.push(ack);
      if (same.waiting.length > perConnection) same.waiting.shift()?.({ ok: true });
      return null;
    }
    if (same && (same.refusedAt === null ? same.call === call : arrived <= same.refusedAt)) {
      ack(same.answer);
      return null;
    }
    if (same) remove(requests, same);
    const request: Request = { ns: ref.ns, what, waiting: [], answer: undefined, call: null, refusedAt: null };
    requests.push(request);
    if (requests.length > perConnection) requests.shift();
    const settle = (answer: unknown): void => {
      const waiting = request.waiting ?? [];
      request.waiting = null;
      request.answer = answer;
      forgetLists(requests);
      for (const answerRepeat of waiting) answerRepeat(answer);
    };
    return {
      served(answer, about) {
        request.call = about;
        settle(answer);
      },
      refused: (answer) => {
        request.refusedAt = this.#arrivals;
        settle(answer);
      },
      givenAway: () => remove(requests, request),
    };
  }

  disconnected(ref: SocketRef): void {
    const rest = this.#byConnection.get(ref.connection)?.filter((r) => r.ns !== ref.ns) ?? [];
    if (rest.length > 0) this.#byConnection.set(ref.connection, rest);
    else this.#byConnection.delete(ref.connection);
  }
}

/** Keeps only the latest of those whose answers are lists of candidates. */
function forgetLists(requests: Request[]): void {
  const lists = requests.filter(({ answer }) => Array.isArray(answer) && answer.length > 0);
  for (const oldest of lists.slice(0, -mostLists)) remove(requests, oldest);
}

function remove(requests: Request[], request: Request): void {
  const i = requests.indexOf(request);
  if (i >= 0) requests.splice(i, 1);
}
