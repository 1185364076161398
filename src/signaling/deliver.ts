// The port through which signaling reaches the browsers of this instance; the proxy's registry implements it. And what runs a
// step's effects through it alone, where nobody else is concerned. Knows nothing of transports or packets.
import type { Namespace, SocketRef, UserId } from '../base/ids.js';
import type { InboundEvent } from '../base/service.js';
import type { Effect, Refusal, Target } from '../call/session.js';
import type { Signals, Whose } from '../telemetry/signals.js';

export interface Delivery {
  /** Injects an event for that very socket; false where it is not connected here any more. */
  emit(to: SocketRef, event: string, arg: unknown): boolean;
  /** Every connected socket of a user that we can serve, in this namespace. */
  socketsOf(ns: Namespace, user: UserId): readonly SocketRef[];
  /** Whether that very socket, on that very connection, is connected. */
  isConnected(ref: SocketRef): boolean;
}

/** The two events whose failure is acknowledged with an empty list (a waiting client never hangs). */
const answers: ReadonlySet<string> = new Set(['call-answer', 'call-rejoin-answer']);

/** An `error` event to the sender, then the acknowledgement where one was asked for. */
export function refuse(event: InboundEvent, refusal: Refusal, delivery: Delivery, signals: Signals): void {
  const conversationId = conversationOf(event.args);
  delivery.emit(
    event.peer.ref,
    'error',
    conversationId === undefined
      ? { event: event.name, message: refusal.message }
      : { event: event.name, conversationId, message: refusal.message },
  );
  event.ack(answers.has(event.name) ? [] : { ok: false, error: refusal.message });
  signals.refused(event.name, refusal.code, event.peer.ref.ns, whoseOf(event));
}

/** Whose event it is, for the guard. */
export const whoseOf = ({ peer, args }: Pick<InboundEvent, 'peer' | 'args'>): Whose => ({
  user: peer.user ?? `connection ${peer.ref.connection}`,
  conversationId: conversationOf(args),
});

/** The conversation that an event names, where it is a valid one: a non-empty string of at most 256 characters. */
export function conversationOf(args: readonly unknown[]): string | undefined {
  const payload = args[0];
  if (typeof payload !== 'object' || payload === null || Array.isArray(payload)) return undefined;
  const id = (payload as Record<string, unknown>).conversationId;
  return typeof id === 'string' && id.length > 0 && id.length <= 256 ? id : undefined;
}

/** Runs effects that concern sockets of this instance only, in their order. `event` is what caused them, where a browser did. */
export function deliver(
  effects: readonly Effect[],
  ns: Namespace,
  event: InboundEvent | undefined,
  delivery: Delivery,
  signals: Signals,
): void {
  for (const effect of effects) {
    switch (effect.kind) {
      case 'emit':
        for (const to of socketsOf(effect.to, ns, delivery)) delivery.emit(to, effect.event, effect.arg);
        break;
      case 'ack':
        event?.ack(effect.arg);
        break;
      case 'refuse':
        if (event) refuse(event, effect.refusal, delivery, signals);
        break;
      case 'candidate-dropped':
        signals.candidateDropped(effect.why);
        break;
    }
  }
}

function socketsOf(to: Target, ns: Namespace, delivery: Delivery): readonly SocketRef[] {
  if ('socket' in to) return [to.socket];
  const sockets = delivery.socketsOf(ns, to.user);
  if (to.except.length === 0) return sockets;
  return sockets.filter((s) => !to.except.some((e) => e.id === s.id && e.connection === s.connection));
}
