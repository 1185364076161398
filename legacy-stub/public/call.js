// One 1:1 call of this page: the peer connection and the call events around it. Everything that changes the connection
// runs in one queue, so that an offer, its refusal and the other side's offer never overlap. Knows nothing of the page's
// elements; it tells of changes with a `change` event.

import { descriptionOf, isUsable } from './loopback.js';
import { close, openCamera, openScreen } from './media.js';

/** `idle`, `ringing` (we are called), `calling` (we call), `connected`, `away` (the peer lost its connection), `rejoining` (we lost ours). */
const fresh = { phase: 'idle', conversationId: null, peer: null, role: null };
const patience = 10_000;
const mostEarly = 256;

export class Call extends EventTarget {
  phase = 'idle';
  conversationId = null;
  peer = null;
  /** `offerer` or `answerer`, for as long as the call lives, whoever drops. */
  role = null;
  pc = null;
  near = null;
  screen = null;
  /** Why the last call ended, or what is going on. */
  note = '';

  #socket;
  #me;
  #log;
  #work = Promise.resolve();
  #incoming = null;
  #early = [];
  #outgoing = null;
  #renegotiate = null;
  #screenSender = null;
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

  /** The far side's pictures: the first video that we receive is the camera, the second the screen. */
  get far() {
    const receiving = (this.pc?.getTransceivers() ?? []).filter((t) => /recv/.test(t.currentDirection ?? ''));
    const [camera, screen] = receiving.filter((t) => t.receiver.track.kind === 'video').map((t) => t.receiver.track);
    const audio = receiving.find((t) => t.receiver.track.kind === 'audio')?.receiver.track;
    return { camera, screen, audio };
  }

  start(conversationId, peer) {
    if (this.phase !== 'idle') return;
    this.#early = [];
    this.#become({ phase: 'calling', conversationId, peer, role: 'offerer', note: `Calling ${peer}…` });
    this.#queue(() => this.#offer('call-offer'));
  }

  accept() {
    if (this.phase !== 'ringing') return;
    const { offer } = this.#incoming;
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
    if (this.screen) return this.#stopScreen();
    const screen = await openScreen(this.#me);
    if (!screen || this.phase === 'idle') return close(screen);
    this.screen = screen;
    const [track] = screen.getVideoTracks();
    track.addEventListener('ended', () => this.screen === screen && this.#stopScreen());
    this.#queue(() => this.#sendScreen());
    this.renegotiate();
    this.#changed();
  }

  /** Offers the connection anew as soon as that is possible. */
  renegotiate(options = {}) {
    this.#renegotiate = { ...this.#renegotiate, ...options };
    this.#queue(() => this.#offerAgain());
  }

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
    on('call-offer', (message) => this.#ring(message));
    on(
      'call-answer',
      ours(({ answer }) => this.#queue(() => this.#settle(answer))),
    );
    on(
      'call-renegotiate-offer',
      ours(({ offer }) => this.#queue(() => this.#answer('call-renegotiate-answer', offer))),
    );
    on(
      'call-renegotiate-answer',
      ours(({ answer }) => this.#queue(() => this.#settle(answer))),
    );
    on(
      'call-rejoin-offer',
      ours(({ offer }) => this.#queue(() => this.#answer('call-rejoin-answer', offer))),
    );
    on(
      'call-rejoin-answer',
      ours(({ answer }) => this.#queue(() => this.#settle(answer))),
    );
    on('ice-candidate', (candidate) => this.#queue(() => this.#hear(candidate)));
    on(
      'call-peer-disconnected',
      ours(() => this.#queue(() => this.#peerLeft())),
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
    if (this.phase !== 'idle')
      this.#become({ phase: 'away', note: `${this.peer} lost the connection. Waiting for their return…` });
  }

  #ring(message) {
    const { conversationId, fromUserId: peer } = message;
    const busy = this.phase !== 'idle' && conversationId !== this.conversationId;
    if (busy) {
      this.#log.note(`${peer} called while busy`);
      this.#ask('call-end', { conversationId });
      return;
    }
    this.#incoming = message;
    this.#early = [];
    // Both called at once: the server let one through, and ours is being refused.
    const crossed = this.phase === 'calling';
    this.#drop();
    this.#become({ phase: 'ringing', conversationId, peer, role: 'answerer', note: `${peer} is calling` });
    if (crossed) this.accept();
  }

  // Steps of the connection, each run from the queue.

  /** `call-offer` or `call-rejoin-offer`: a new connection, our description first. */
  async #offer(event) {
    // The other side's offer may have come first.
    if (this.phase !== (event === 'call-offer' ? 'calling' : 'rejoining')) return;
    const pc = await this.#open();
    if (!pc) return;
    this.#addCamera(pc);
    await pc.setLocalDescription();
    const reply = await this.#ask(event, { conversationId: this.conversationId, offer: descriptionOf(pc) });
    if (pc !== this.pc) return;
    if (reply.ok) return this.#releaseCandidates();
    // The other side was faster with its rejoin offer, which follows; or the connection went and a fresh one tries again.
    if (event === 'call-rejoin-offer' && (reply.error === 'Rejoin in progress, answer it' || !this.#socket.connected))
      return;
    this.#finish(event === 'call-offer' ? `No call: ${reply.error}` : 'The call ended while you were away');
  }

  /** Answers an offer: the first one and a rejoin on a new connection, a renegotiation on the one we have. */
  async #answer(event, offer) {
    const again = event === 'call-renegotiate-answer';
    const pc = again ? this.pc : await this.#open();
    if (!pc) return;
    if (pc.signalingState === 'have-local-offer') await this.#rollBack(pc);
    await pc.setRemoteDescription(offer);
    if (!again) this.#addCamera(pc);
    await pc.setLocalDescription();
    if (pc !== this.pc) return;
    const reply = await this.#ask(event, { conversationId: this.conversationId, answer: descriptionOf(pc) });
    if (pc !== this.pc) return;
    if (!reply.ok) {
      if (!again) this.#finish(`No call: ${reply.error}`);
      return;
    }
    this.#releaseCandidates();
    for (const candidate of reply.candidates ?? []) await this.#add(candidate);
    await this.#agreed(pc);
  }

  /** The other side's answer to whatever we offered. */
  async #settle(answer) {
    const { pc } = this;
    if (pc?.signalingState !== 'have-local-offer') return;
    await pc.setRemoteDescription(answer);
    await this.#agreed(pc);
  }

  async #agreed(pc) {
    for (const candidate of this.#early.splice(0)) await this.#add(candidate);
    if (pc !== this.pc) return;
    // On a new connection the screen comes after the call itself.
    if (this.screen && !this.#screenSender) {
      this.#sendScreen();
      this.#renegotiate ??= {};
    }
    this.#become({ phase: 'connected', note: pc.connectionState === 'connected' ? '' : 'Connecting…' });
    if (this.#renegotiate) this.#queue(() => this.#offerAgain());
  }

  async #offerAgain() {
    const { pc } = this;
    const ready = this.#renegotiate && this.phase === 'connected' && pc?.signalingState === 'stable';
    if (!ready || !this.#socket.connected) return;
    const options = this.#renegotiate;
    this.#renegotiate = null;
    if (options.iceRestart) pc.restartIce();
    await pc.setLocalDescription();
    if (pc !== this.pc) return;
    const offer = descriptionOf(pc);
    const reply = await this.#ask('call-renegotiate-offer', { conversationId: this.conversationId, offer });
    if (reply.ok || pc !== this.pc) return;
    // Glare: the other side's offer won. Ours is taken back and made again once theirs is answered.
    await this.#rollBack(pc);
    this.#renegotiate = { ...options, ...this.#renegotiate };
    setTimeout(() => this.#queue(() => this.#offerAgain()), 400 + Math.random() * 600);
  }

  async #rollBack(pc) {
    if (pc.signalingState === 'have-local-offer') await pc.setLocalDescription({ type: 'rollback' });
  }

  #sendScreen() {
    const [track] = this.screen?.getVideoTracks() ?? [];
    if (!track || !this.pc || this.#screenSender) return;
    this.#screenSender = this.pc.addTrack(track, this.screen);
  }

  #stopScreen() {
    close(this.screen);
    this.screen = null;
    const sender = this.#screenSender;
    this.#screenSender = null;
    this.#queue(() => sender && this.pc?.getSenders().includes(sender) && this.pc.removeTrack(sender));
    this.renegotiate();
    this.#changed();
  }

  /** A new connection in place of the old one, our tracks in it where we offer. Null where the call ended meanwhile. */
  async #open() {
    const { conversationId } = this;
    this.near ??= await openCamera(this.#me);
    if (this.conversationId !== conversationId || this.phase === 'idle') {
      close(this.near);
      this.near = null;
      return null;
    }
    this.#drop();
    this.#early = [];
    const pc = new RTCPeerConnection({ iceServers: [] });
    this.pc = pc;
    this.#outgoing = [];
    pc.onicecandidate = ({ candidate }) => pc === this.pc && candidate?.candidate && this.#tell(candidate.toJSON());
    pc.ontrack = () => this.#changed();
    pc.onconnectionstatechange = () => pc === this.pc && this.#linkChanged();
    return pc;
  }

  #addCamera(pc) {
    for (const track of this.near.getTracks()) pc.addTrack(track, this.near);
  }

  #linkChanged() {
    if (this.pc.connectionState === 'connected' && this.phase === 'connected') this.note = '';
    if (this.pc.connectionState === 'failed' && this.phase === 'connected' && this.role === 'offerer') {
      this.renegotiate({ iceRestart: true });
    }
    this.#changed();
  }

  // Candidates.

  #tell(iceCandidate) {
    if (!isUsable(iceCandidate.candidate)) return;
    if (this.#outgoing) this.#outgoing.push(iceCandidate);
    else this.#sendCandidate(iceCandidate);
  }

  /** Ours wait until the server knows the call that they belong to. */
  #releaseCandidates() {
    const waiting = this.#outgoing ?? [];
    this.#outgoing = null;
    for (const candidate of waiting) this.#sendCandidate(candidate);
  }

  #sendCandidate(iceCandidate) {
    const { conversationId, role } = this;
    this.#ask('ice-candidate', { conversationId, iceCandidate, didIOffer: role === 'offerer' });
  }

  async #hear(candidate) {
    if (this.pc?.remoteDescription) await this.#add(candidate);
    else if (this.phase !== 'idle' && this.#early.length < mostEarly) this.#early.push(candidate);
  }

  async #add(candidate) {
    if (!isUsable(candidate?.candidate)) return;
    try {
      await this.pc?.addIceCandidate(candidate);
    } catch (error) {
      // One that trails from a connection before this one.
      console.info('candidate not used:', error.message);
    }
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
      console.error(error);
      this.#log.note(`${error.name}: ${error.message}`);
    });
    return this.#work;
  }

  #become(values) {
    Object.assign(this, values);
    if (this.phase === 'connected' || this.phase === 'away' || this.phase === 'rejoining') remember(this.#me, this);
    this.#changed();
  }

  #drop() {
    this.pc?.close();
    this.pc = null;
    this.#outgoing = null;
    this.#screenSender = null;
    this.#renegotiate = null;
  }

  #finish(note) {
    this.#drop();
    close(this.near);
    close(this.screen);
    this.near = null;
    this.screen = null;
    this.#incoming = null;
    this.#early = [];
    sessionStorage.removeItem(`call:${this.#me}`);
    this.#become({ ...fresh, note });
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
