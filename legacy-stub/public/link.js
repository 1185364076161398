// One peer connection from its first description to its end. After `close` every step under way rejects with
// `LinkClosed`: a browser leaves such promises pending for ever. Knows nothing of servers or of calls.
import { descriptionOf, isUsable } from './loopback.js';

/** The connection was given up while a step of it was under way. */
export class LinkClosed extends Error {}

/** Candidates of the other side that may wait for its description. */
const mostEarly = 256;

export class Link {
  pc = new RTCPeerConnection({ iceServers: [] });

  #early = [];
  /** Our candidates until `release`, then null. */
  #waiting = [];
  #tell;
  #screenSender = null;
  #closed;
  #close;

  /** `tell(candidate)` sends one of our candidates; `changed(connectionState)` when tracks or the connection's state change. */
  constructor(tell, changed) {
    this.#tell = tell;
    this.#closed = new Promise((_, reject) => {
      this.#close = () => reject(new LinkClosed());
    });
    this.#closed.catch(() => undefined); // a link that is closed between two steps is no failure
    this.pc.onicecandidate = ({ candidate }) => candidate?.candidate && this.#found(candidate.toJSON());
    this.pc.ontrack = () => changed(this.pc.connectionState);
    this.pc.onconnectionstatechange = () => changed(this.pc.connectionState);
  }

  close() {
    this.pc.onicecandidate = null;
    this.pc.ontrack = null;
    this.pc.onconnectionstatechange = null;
    this.pc.close();
    this.#close();
  }

  get isConnected() {
    return this.pc.connectionState === 'connected';
  }

  /** Whether an offer can be made or taken: none is open. */
  get isStable() {
    return this.pc.signalingState === 'stable';
  }

  /** What the other side sends: the first video is its camera, the second its screen. */
  get far() {
    const receiving = this.pc.getTransceivers().filter((t) => /recv/.test(t.currentDirection ?? ''));
    const tracks = receiving.map((transceiver) => transceiver.receiver.track);
    const [camera, screen] = tracks.filter((track) => track.kind === 'video');
    return { camera, screen, audio: tracks.find((track) => track.kind === 'audio') };
  }

  /** Makes an offer that holds `stream`'s tracks besides what was there. */
  async offer(stream, { iceRestart = false } = {}) {
    this.#send(stream);
    if (iceRestart) this.pc.restartIce();
    await this.#step(this.pc.setLocalDescription());
    return descriptionOf(this.pc);
  }

  /** Answers an offer. One of our own that is open is taken back first: the server let the other one through. */
  async answer(offer, stream) {
    await this.rollBack();
    await this.#step(this.pc.setRemoteDescription(offer));
    this.#send(stream);
    await this.#step(this.pc.setLocalDescription());
    await this.#addEarly();
    return descriptionOf(this.pc);
  }

  /** Takes the answer to our offer; false where no offer is open. */
  async settle(answer) {
    if (this.pc.signalingState !== 'have-local-offer') return false;
    await this.#step(this.pc.setRemoteDescription(answer));
    await this.#addEarly();
    return true;
  }

  async rollBack() {
    if (this.pc.signalingState === 'have-local-offer') {
      await this.#step(this.pc.setLocalDescription({ type: 'rollback' }));
    }
  }

  /** Takes a candidate of the other side, before or after its description. */
  async hear(candidate) {
    if (!isUsable(candidate?.candidate)) return;
    if (!this.pc.remoteDescription) {
      if (this.#early.length < mostEarly) this.#early.push(candidate);
      return;
    }
    try {
      await this.#step(this.pc.addIceCandidate(candidate));
    } catch (error) {
      if (error instanceof LinkClosed) throw error;
      console.info('a candidate of an earlier connection:', error.message);
    }
  }

  /** From now on our candidates go out, those that waited first. */
  release() {
    const waiting = this.#waiting ?? [];
    this.#waiting = null;
    for (const candidate of waiting) this.#tell(candidate);
  }

  /** Sends a screen or, with null, sends it no more; a renegotiation makes it known. True where that changed anything. */
  show(screen) {
    const [track] = screen?.getVideoTracks() ?? [];
    if (Boolean(track) === Boolean(this.#screenSender)) return false;
    if (track) this.#screenSender = this.pc.addTrack(track, screen);
    else {
      this.pc.removeTrack(this.#screenSender);
      this.#screenSender = null;
    }
    return true;
  }

  #send(stream) {
    const sent = this.pc.getSenders().map((sender) => sender.track);
    for (const track of stream?.getTracks() ?? []) if (!sent.includes(track)) this.pc.addTrack(track, stream);
  }

  #found(candidate) {
    if (!isUsable(candidate.candidate)) return;
    if (this.#waiting) this.#waiting.push(candidate);
    else this.#tell(candidate);
  }

  async #addEarly() {
    for (const candidate of this.#early.splice(0)) await this.hear(candidate);
  }

  #step(promise) {
    return Promise.race([promise, this.#closed]);
  }
}
