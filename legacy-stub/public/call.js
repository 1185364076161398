// One 1:1 call of this page: the call events that come and go, and what they do to the connection. What changes the
// connection runs in one queue, so that an offer, its refusal and the other side's offer never overlap. Knows nothing of
// the page's elements; it tells of changes with a `change` event.
import { Link, LinkClosed } from './link.js';
import { close, openCamera, openScreen } from './media.js';

const idle = { phase: 'idle', conversationId: null, peer: null, role: null };
const patience = 10_000;

export class Call extends EventTarget {
  /** `idle`, `ringing` (we are called), `calling` (we call), `connected`, `away` (the peer lost its connection), `rejoining` (we lost ours). */
  phase = 'idle';
  conversationId = null;
  peer = null;
  /** `offerer` or `answerer`, for as long as the call lives, whoever drops. */
  role = null;
  link = null;
  near = null;
  screen = null;
  /** Why the last call ended, or what is going on. */
  note = '';

  #socket;
  #me;
  #log;
  #work = Promise.resolve();
  #offered = null;
  /** Counts beginnings and ends: a step that waited for the camera sees whether it is still wanted. */
  #turn = 0;
  #renegotiate = null;
  #refusals = new Map();

  constructor(socket, me, log) {
    super();
    this.#socket = socket;
    this.#me = me;
    this.#log = log;
    const remembered = recall(me);
    if (remembered) Object.assign(this, remembered, { phase: 'rejoining', note: 'Coming back to the call…' });
    this.#listen();
  }

  get far() {
    return this.link?.far ?? {};
  }

  start(conversationId, peer) {
    if (this.phase !== 'idle') return;
    this.#begin({ phase: 'calling', conversationId, peer, role: 'offerer', note: `Calling ${peer}…` });
    this.#queue(() => this.#offer('call-offer'));
  }

  accept() {
    if (this.phase !== 'ringing') return;
    const offer = this.#offered;
    this.#become({ phase: 'connected', role: 'answerer', note: 'Connecting…' });
    this.#queue(() => this.#answer('call-answer', offer));
  }

  /** Declines, cancels or hangs up. */
  end() {
    if (this.phase === 'idle') return;
    const { conversationId } = this;
    this.#finish(this.phase === 'ringing' ? 'You declined' : 'You hung up');
    this.#ask('call-end', { conversationId });
  }

  async toggleScreen() {
    if (this.screen) return this.#show(null);
    const turn = this.#turn;
    const screen = await openScreen(this.#me);
    if (!screen || turn !== this.#turn) return close(screen);
    // The browser's own "stop sharing" button.
    screen.getVideoTracks()[0].addEventListener('ended', () => this.screen === screen && this.#show(null));
    this.#show(screen);
  }

  /** Offers the connection anew as soon as that is possible. */
  renegotiate(options = {}) {
    this.#renegotiate = { ...this.#renegotiate, ...options };
    this.#queue(() => this.#offerAgain());
  }

  /** Turns our `audio` or `video` off and on. */
  toggle(kind) {
    for (const track of this.near?.getTracks() ?? []) if (track.kind === kind) track.enabled = !track.enabled;
    this.#changed();
  }

  isOff(kind) {
    return this.near?.getTracks().some((track) => track.kind === kind && !track.enabled) ?? false;
  }

  // What the server says.

  #listen() {
    const on = (event, handle) =>
      this.#socket.on(event, (message) => {
        this.#log.received(event, event === 'call-ended' ? message.reason : '');
        handle(message);
      });
    const ours = (handle) => (message) => {
      if (this.phase !== 'idle' && message.conversationId === this.conversationId) handle(message);
    };
    const inTurn = (step) => ours((message) => this.#queue(() => step(message)));
    on('call-offer', (message) => this.#ring(message));
    on(
      'call-answer',
      inTurn(({ answer }) => this.#settle(answer)),
    );
    on(
      'call-renegotiate-offer',
      inTurn(({ offer }) => this.#answer('call-renegotiate-answer', offer)),
    );
    on(
      'call-renegotiate-answer',
      inTurn(({ answer }) => this.#settle(answer)),
    );
    on(
      'call-rejoin-offer',
      inTurn(({ offer }) => this.#answer('call-rejoin-answer', offer)),
    );
    on(
      'call-rejoin-answer',
      inTurn(({ answer }) => this.#settle(answer)),
    );
    on('ice-candidate', (candidate) => this.#queue(() => this.link?.hear(candidate)));
    on(
      'call-peer-disconnected',
      inTurn(() => this.#peerLeft()),
    );
    on(
      'call-ended',
      ours(({ reason, userId }) => this.#finish(endings[reason]?.(userId) ?? 'The call ended')),
    );
    this.#socket.on('error', (refusal) => {
      this.#log.note(`error: ${refusal?.event ?? ''} ${refusal?.message ?? ''}`);
      if (refusal?.event) this.#refusals.set(refusal.event, refusal.message);
    });
    this.#socket.on('connect', () => this.#arrived());
    this.#socket.on('disconnect', (why) => {
      this.#log.note(`connection lost (${why})`);
      if (this.phase === 'ringing') this.#finish('The connection was lost');
      else if (this.phase !== 'idle') this.#become({ note: 'The connection was lost, coming back…' });
    });
  }

  /** A fresh socket: a call that we remember is rejoined from it. */
  #arrived() {
    if (this.#socket.recovered || this.phase === 'idle') return;
    if (this.phase === 'calling') return this.#finish('The connection was lost before an answer');
    this.#become({ phase: 'rejoining', note: 'Coming back to the call…' });
    this.#queue(() => this.#offer('call-rejoin-offer'));
  }

  #peerLeft() {
    if (this.phase === 'idle') return;
    this.#become({ phase: 'away', note: `${this.peer} lost the connection. Waiting for their return…` });
  }

  #ring({ conversationId, fromUserId: peer, offer }) {
    if (this.phase !== 'idle' && conversationId !== this.conversationId) {
      this.#log.note(`${peer} called while busy`);
      this.#ask('call-end', { conversationId });
      return;
    }
    // Both called at once: the server let theirs through, and ours is refused or never sent.
    const crossed = this.phase === 'calling';
    this.#offered = offer;
    this.#begin({ phase: 'ringing', conversationId, peer, role: 'answerer', note: `${peer} is calling` });
    if (crossed) this.accept();
  }

  // Steps of the connection, each run from the queue.

  /** `call-offer` or `call-rejoin-offer`: a new connection, our description first. */
  async #offer(event) {
    const first = event === 'call-offer';
    // The other side's offer may have come before it.
    if (this.phase !== (first ? 'calling' : 'rejoining')) return;
    const link = await this.#open();
    const { conversationId } = this;
    const reply = await this.#ask(event, { conversationId, offer: await link.offer(this.near) });
    if (link !== this.link) return;
    if (reply.ok) return link.release();
    if (first) return this.#finish(`No call: ${reply.error}`);
    // The other side was faster with its rejoin offer, which follows; or the connection went, and a fresh one tries again.
    if (reply.error === 'Rejoin in progress, answer it' || !this.#socket.connected) return;
    this.#finish('The call ended while you were away');
  }

  /** Answers an offer: the first one and a rejoin on a new connection, a renegotiation on the one we have. */
  async #answer(event, offer) {
    const again = event === 'call-renegotiate-answer';
    const link = again ? this.link : await this.#open();
    if (!link) return;
    const { conversationId } = this;
    const reply = await this.#ask(event, { conversationId, answer: await link.answer(offer, this.near) });
    if (link !== this.link) return;
    if (!reply.ok) {
      if (!again) this.#finish(`No call: ${reply.error}`);
      return;
    }
    link.release();
    for (const candidate of reply.candidates ?? []) await link.hear(candidate);
    this.#agreed(link);
  }

  /** The other side's answer to whatever we offered. */
  async #settle(answer) {
    const { link } = this;
    if (await link?.settle(answer)) this.#agreed(link);
  }

  #agreed(link) {
    if (link !== this.link) return;
    // On a new connection the screen comes after the call itself.
    if (link.show(this.screen)) this.#renegotiate ??= {};
    this.#become({ phase: 'connected', note: link.isConnected ? '' : 'Connecting…' });
    if (this.#renegotiate) this.#queue(() => this.#offerAgain());
  }

  async #offerAgain() {
    const { link, conversationId } = this;
    const ready = this.#renegotiate && this.phase === 'connected' && link?.isStable && this.#socket.connected;
    if (!ready) return; // the answer that is awaited asks again
    const options = this.#renegotiate;
    this.#renegotiate = null;
    const offer = await link.offer(this.near, options);
    const reply = await this.#ask('call-renegotiate-offer', { conversationId, offer });
    if (reply.ok || link !== this.link) return;
    // Glare: the other side's offer won. Ours is taken back, and made again once theirs is answered.
    await link.rollBack();
    this.#renegotiate = { ...options, ...this.#renegotiate };
    setTimeout(() => this.#queue(() => this.#offerAgain()), 400 + Math.random() * 600);
  }

  #show(screen) {
    close(this.screen);
    this.screen = screen;
    this.#queue(() => this.link?.show(screen));
    this.renegotiate();
    this.#changed();
  }

  /** A new connection in place of the old one. Throws LinkClosed where the call ended meanwhile. */
  async #open() {
    const turn = this.#turn;
    const near = this.near ?? (await openCamera(this.#me));
    if (turn !== this.#turn) {
      close(near);
      throw new LinkClosed();
    }
    this.near = near;
    this.#drop();
    const link = new Link(
      (candidate) => this.#tell(candidate),
      (state) => this.#linkChanged(state),
    );
    this.link = link;
    return link;
  }

  #linkChanged(state) {
    if (this.phase === 'connected' && state === 'connected') this.note = '';
    if (this.phase === 'connected' && state === 'failed' && this.role === 'offerer') {
      this.renegotiate({ iceRestart: true });
    }
    this.#changed();
  }

  #tell(iceCandidate) {
    const { conversationId, role } = this;
    this.#ask('ice-candidate', { conversationId, iceCandidate, didIOffer: role === 'offerer' });
  }

  // Plumbing.

  /** Sends an event and waits for its acknowledgement: `{ ok, error?, candidates? }`, never a throw. */
  async #ask(event, payload) {
    const line = this.#log.sent(event);
    let reply;
    if (!this.#socket.connected) reply = { ok: false, error: 'Not connected' };
    else {
      this.#refusals.delete(event);
      try {
        reply = await this.#socket.timeout(patience).emitWithAck(event, payload);
      } catch (error) {
        reply = { ok: false, error: error.message };
      }
    }
    if (Array.isArray(reply)) {
      const error = this.#refusals.get(event);
      reply = error ? { ok: false, error } : { ok: true, candidates: reply };
    }
    if (!reply?.ok) line.settle('refused', reply?.error ?? 'refused');
    else if (reply.candidates) line.settle('list', `${reply.candidates.length} candidates`);
    else line.settle('ok', 'ok');
    return reply ?? { ok: false, error: 'No answer' };
  }

  #queue(step) {
    this.#work = this.#work.then(step).catch((error) => {
      if (error instanceof LinkClosed) return; // the call went on without this step, or ended
      console.error(error);
      this.#log.note(`${error.name}: ${error.message}`);
    });
  }

  #begin(values) {
    this.#turn += 1;
    this.#drop();
    this.#become(values);
  }

  #become(values) {
    Object.assign(this, values);
    if (this.phase === 'connected' || this.phase === 'away' || this.phase === 'rejoining') remember(this.#me, this);
    this.#changed();
  }

  #drop() {
    this.link?.close();
    this.link = null;
    this.#renegotiate = null;
  }

  #finish(note) {
    close(this.near);
    close(this.screen);
    this.near = null;
    this.screen = null;
    this.#offered = null;
    sessionStorage.removeItem(`call:${this.#me}`);
    this.#begin({ ...idle, note });
  }

  #changed() {
    this.dispatchEvent(new Event('change'));
  }
}

const endings = {
  hangup: (who) => `${who} hung up`,
  'offerer-left': (who) => `${who} left before you answered`,
  'answered-elsewhere': () => 'Answered on another of your devices',
  'rejoin-timeout': (who) => `${who} did not come back`,
  operator: () => 'The call was ended by the operator',
};

function remember(me, { conversationId, peer, role }) {
  sessionStorage.setItem(`call:${me}`, JSON.stringify({ conversationId, peer, role }));
}

function recall(me) {
  const text = sessionStorage.getItem(`call:${me}`);
  return text ? JSON.parse(text) : null;
}
