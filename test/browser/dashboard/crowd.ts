// Thousands of real calls between two people on a real proxy with a legacy behind it, and candidates that go to and fro in
// them. Knows nothing of who looks on.
import { type Client, connect, type Stack } from '../../harness.js';

/** Offers that wait for their acknowledgement at once; more would only wait in the sockets. */
const AT_ONCE = 64;
const TICK_MS = 20;

export class Crowd {
  readonly #people: readonly [Client, Client];
  readonly #conversations: readonly string[];
  #sent = 0;
  #received = 0;
  #talking: NodeJS.Timeout | undefined;

  private constructor(people: readonly [Client, Client], conversations: readonly string[]) {
    this.#people = people;
    this.#conversations = conversations;
    for (const { socket } of people) {
      socket.on('ice-candidate', () => {
        this.#received += 1;
      });
    }
  }

  /** Resolves once `calls` calls are live, in `crowd-0` the first of them. All are answered, so that candidates pass at once. */
  static async gather({ legacy, proxy }: Stack, calls: number): Promise<Crowd> {
    const transports = ['websocket'];
    const caller = await connect(proxy.url, 'crowd-caller', { transports });
    const callee = await connect(proxy.url, 'crowd-callee', { transports });
    const conversations = Array.from({ length: calls }, (_, i) => `crowd-${i}`);
    const waiting = conversations[Symbol.iterator]();
    const callOneAfterTheOther = async () => {
      for (const conversationId of waiting) {
        await legacy.membership.create({ id: conversationId, participants: [caller.user, callee.user] });
        await caller.ask('call-offer', { conversationId, offer: { type: 'offer', sdp: 'v=0' } });
        await callee.ask('call-answer', { conversationId, answer: { type: 'answer', sdp: 'v=0' } });
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, callOneAfterTheOther));
    return new Crowd([caller, callee], conversations);
  }

  /** Sends about `perSecond` candidates a second, from both sides, all over the calls, until `hush`. */
  talk(perSecond: number): void {
    const began = Date.now();
    const before = this.#sent;
    this.#talking = setInterval(() => {
      const due = before + ((Date.now() - began) * perSecond) / 1_000;
      while (this.#sent < due) this.#send();
    }, TICK_MS);
  }

  hush(): void {
    clearInterval(this.#talking);
  }

  get sent(): number {
    return this.#sent;
  }
  get received(): number {
    return this.#received;
  }

  leave(): void {
    this.hush();
    for (const person of this.#people) person.close();
  }

  #send(): void {
    const n = this.#sent++;
    const conversationId = this.#conversations[(n * 7_919) % this.#conversations.length];
    const iceCandidate = { candidate: `candidate:${n} 1 udp 2113937151 192.0.2.1 54400 typ host`, sdpMid: '0' };
    this.#people[n % 2]?.socket.emit('ice-candidate', { conversationId, iceCandidate });
  }
}
