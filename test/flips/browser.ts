// A browser of the random play: a well-behaved client that says what makes sense in the call that it believes itself in. All
// that it says carries the call it is about and a number. Knows nothing of routes, of the proxy, or of which path answers.

export interface Said {
  readonly device: string;
  readonly user: string;
  readonly conversationId: string;
  readonly name: string;
  /** Tag of the offer of the call that it is about; undefined where it is about none. */
  readonly about: string | undefined;
  /** Counts what this device said. */
  readonly n: number;
  acks: unknown[];
}

/** What an event carries in the place of a description or candidate. */
export interface Body {
  readonly about: string;
  readonly from: string;
  readonly n: number;
}

export interface Heard {
  readonly name: string;
  readonly body: Body | undefined;
  readonly origin: 'here' | 'legacy';
}

type Phase = 'preparing' | 'calling' | 'ringing' | 'connected' | 'peer-away' | 'rejoining' | 'asked-to-rejoin';

interface Belief {
  about: string;
  phase: Phase;
  /** The other side's renegotiation waits for an answer. */
  renegotiating: boolean;
  /** Somebody else's offer came while ours was under way. */
  other: string | undefined;
}

const field: Readonly<Record<string, string>> = {
  'call-offer': 'offer',
  'call-answer': 'answer',
  'ice-candidate': 'iceCandidate',
  'call-renegotiate-offer': 'offer',
  'call-renegotiate-answer': 'answer',
  'call-rejoin-offer': 'offer',
  'call-rejoin-answer': 'answer',
};

export interface BrowserOptions {
  readonly name: string;
  readonly user: string;
  /** By conversation: the call that another socket of this user was in when it went away. */
  readonly left: Map<string, string>;
  readonly newTag: () => string;
  readonly send: (said: Said, payload: object) => void;
}

export class Browser {
  readonly name: string;
  readonly user: string;
  readonly said: Said[] = [];
  readonly heard: Heard[] = [];
  /** The server accepted its socket: a client keeps what it has to say until then. */
  ready = false;
  readonly believes = new Map<string, Belief>();
  readonly #left: Map<string, string>;
  readonly #newTag: () => string;
  readonly #send: (said: Said, payload: object) => void;
  readonly #waiting = new Map<number, Said>();

  constructor({ name, user, left, newTag, send }: BrowserOptions) {
    this.name = name;
    this.user = user;
    this.#left = left;
    this.#newTag = newTag;
    this.#send = send;
  }

  /** Says one of the things that make sense now; `pick` says which. */
  act(conversationId: string, pick: number): void {
    if (!this.ready) return;
    const sayable = this.#sayable(conversationId);
    const name = sayable[pick % sayable.length] as string;
    const belief = this.believes.get(conversationId);
    switch (name) {
      case 'early': {
        const about = this.#newTag();
        this.#believe(conversationId, about, 'preparing');
        this.#say(conversationId, 'ice-candidate', about);
        return;
      }
      case 'call-offer': {
        const about = belief?.about ?? this.#newTag();
        this.#believe(conversationId, about, 'calling');
        this.#say(conversationId, name, about);
        return;
      }
      case 'call-rejoin-offer': {
        const about = this.#left.get(conversationId) as string;
        this.#left.delete(conversationId);
        this.#believe(conversationId, about, 'rejoining');
        this.#say(conversationId, name, about);
        return;
      }
      case 'chat':
        this.#say(conversationId, name, undefined);
        return;
    }
    if (!belief) return;
    if (name === 'call-answer' || name === 'call-rejoin-answer') belief.phase = 'connected';
    if (name === 'call-renegotiate-answer') belief.renegotiating = false;
    if (name === 'call-end') this.believes.delete(conversationId);
    this.#say(conversationId, name, belief.about);
  }

  /** An event from the server. */
  hears(name: string, arg: unknown, origin: Heard['origin']): void {
    const payload = (name === 'ice-candidate' ? { iceCandidate: arg } : arg) as Record<string, unknown>;
    const body = payload[field[name] ?? ''] as Body | undefined;
    this.heard.push({ name, body, origin });
    const conversationId = payload.conversationId as string;
    const belief = this.believes.get(conversationId);
    switch (name) {
      case 'call-offer':
        if (!belief || belief.phase === 'preparing') this.#believe(conversationId, body?.about as string, 'ringing');
        else if (belief.phase === 'calling') belief.other = body?.about;
        return;
      case 'call-ended':
        if (payload.reason === 'answered-elsewhere' && belief?.phase !== 'ringing') return;
        this.believes.delete(conversationId);
        this.#left.delete(conversationId);
        return;
      case 'error':
        if (belief && payload.event === 'call-answer') this.believes.delete(conversationId);
        if (belief && payload.event === 'call-rejoin-offer') this.believes.delete(conversationId);
        return;
    }
    if (!belief) return;
    if (name === 'call-peer-disconnected') belief.phase = 'peer-away';
    if (body?.about !== belief.about) return;
    if (name === 'call-answer' || name === 'call-rejoin-answer') belief.phase = 'connected';
    if (name === 'call-rejoin-offer') belief.phase = 'asked-to-rejoin';
    if (name === 'call-renegotiate-offer') belief.renegotiating = true;
  }

  acked(id: number, answer: unknown, origin: Heard['origin']): void {
    const said = this.#waiting.get(id);
    if (!said) throw new Error(`${this.name} never asked for acknowledgement ${id}`);
    said.acks.push(answer);
    if (said.acks.length > 1) return;
    if (Array.isArray(answer)) {
      for (const body of answer as Body[]) this.heard.push({ name: 'ice-candidate', body, origin });
    }
    const belief = this.believes.get(said.conversationId);
    if (said.name !== 'call-offer' || (answer as { ok: boolean }).ok || belief?.about !== said.about) return;
    if (belief?.other === undefined) this.believes.delete(said.conversationId);
    else this.#believe(said.conversationId, belief.other, 'ringing');
  }

  /** Its connection is gone; the user may come back to its calls with another. */
  leaves(): void {
    for (const [conversationId, { about, phase }] of this.believes) {
      if (phase !== 'preparing' && phase !== 'calling' && phase !== 'ringing') this.#left.set(conversationId, about);
    }
    this.believes.clear();
  }

  #sayable(conversationId: string): readonly string[] {
    const belief = this.believes.get(conversationId);
    const back = this.#left.has(conversationId) ? ['call-rejoin-offer', 'call-rejoin-offer', 'call-rejoin-offer'] : [];
    switch (belief?.phase) {
      case undefined:
        return ['call-offer', 'call-offer', 'early', 'chat', ...back];
      case 'preparing':
        return ['call-offer', 'call-offer', 'ice-candidate'];
      case 'calling':
        return ['ice-candidate', 'ice-candidate', 'ice-candidate', 'chat', 'call-end'];
      case 'ringing':
        return ['call-answer', 'call-answer', 'call-answer', 'chat', 'call-end'];
      case 'connected':
        return [
          ...(belief.renegotiating ? Array(4).fill('call-renegotiate-answer') : ['call-renegotiate-offer']),
          ...['ice-candidate', 'ice-candidate', 'ice-candidate', 'chat', 'call-end'],
        ];
      case 'asked-to-rejoin':
        return ['call-rejoin-answer', 'call-rejoin-answer', 'ice-candidate', 'call-end'];
      case 'peer-away':
      case 'rejoining':
        return ['ice-candidate', 'chat', 'call-end'];
    }
  }

  #believe(conversationId: string, about: string, phase: Phase): void {
    this.believes.set(conversationId, { about, phase, renegotiating: false, other: undefined });
  }

  #say(conversationId: string, name: string, about: string | undefined): void {
    const n = this.said.length;
    const said: Said = { device: this.name, user: this.user, conversationId, name, about, n, acks: [] };
    this.said.push(said);
    this.#waiting.set(n, said);
    const body = { about, from: this.name, n };
    this.#send(said, { conversationId, n, from: this.name, ...(field[name] ? { [field[name] as string]: body } : {}) });
  }
}
