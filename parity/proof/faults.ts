// The planted faults: what an implementation of calls could get wrong, each as an edit of the legacy stub's compiled code
// that is made in a copy and only there. Knows nothing of how they are run or found.
// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the stub's code has template strings.

export interface Edit {
  /** Occurs exactly once in `legacy-stub/calls.ts` and in what it is compiled to; any white space fits any other. */
  readonly at: string;
  readonly to: string;
}

export interface Fault {
  readonly name: string;
  readonly what: string;
  readonly edits: readonly Edit[];
  /** Why random lifecycles can't come upon it; absent where they can. */
  readonly beyondLifecycles?: string;
}

const fault = (name: string, what: string, at: string, to: string, beyondLifecycles?: string): Fault => ({
  name,
  what,
  edits: [{ at, to }],
  ...(beyondLifecycles === undefined ? {} : { beyondLifecycles }),
});

const behaviour: readonly Fault[] = [
  fault(
    'roles-swapped-on-rejoin',
    'the survivor is taken for the one who rejoins',
    "enter(call, { state: 'OFFERING', rejoiner: own });",
    "enter(call, { state: 'OFFERING', rejoiner: other });",
  ),
  fault(
    'seats-swapped-on-rejoin',
    'after a rejoin each side sits on the seat of the other',
    "other.socket?.emit('call-rejoin-answer', relayed(r, 'answer'));",
    "other.socket?.emit('call-rejoin-answer', relayed(r, 'answer')); [own.socket, other.socket] = [other.socket, own.socket];",
  ),
  fault(
    'second-offer-overwrites',
    'an offer in a live call starts a new one',
    "throw new Refusal('Call already in progress');",
    'end(live);',
  ),
  fault(
    'offer-while-recovering-overwrites',
    'an offer in a call that waits for a rejoin starts a new one',
    "throw new Refusal('Call is recovering, rejoin instead');",
    'end(live);',
  ),
  fault(
    'renegotiation-in-any-state',
    'a renegotiation is accepted while ringing and while recovering',
    'throw new Refusal(`Cannot renegotiate from state ${phase.state}`);',
    ';',
  ),
  fault(
    'glare-accepted',
    'both renegotiate at once and both are relayed',
    "enter(call, { state: 'RENEGOTIATING', by: own });",
    "enter(call, { state: 'CONNECTED' });",
  ),
  fault(
    'renegotiation-forgets-its-answer',
    'after an answered renegotiation the next one is refused',
    "other.socket?.emit('call-renegotiate-answer', relayed(r, 'answer'));",
    "other.socket?.emit('call-renegotiate-answer', relayed(r, 'answer')); enter(call, { state: 'RENEGOTIATING', by: own });",
  ),
  fault('early-candidates-lost', 'candidates before the answer are lost', 'buffer(call, r.body);', ';'),
  fault(
    'candidates-reordered',
    'the candidates that come with an answer stand in another order',
    'return candidates;',
    'return candidates.reverse();',
  ),
  fault(
    'candidates-spread',
    'the list of an answer is acknowledged as one argument for each candidate',
    'ack(candidates ?? { ok: true });',
    '{ if (candidates) ack(...candidates); else ack({ ok: true }); }',
  ),
  fault(
    'buffer-too-large',
    'more than 256 candidates are kept for an answer',
    'MAX_BUFFERED = 256;',
    'MAX_BUFFERED = 300;',
    'takes more candidates than a lifecycle has steps',
  ),
  fault(
    'buffer-too-small',
    'fewer than 256 candidates are kept for an answer',
    'MAX_BUFFERED = 256;',
    'MAX_BUFFERED = 255;',
    'takes more candidates than a lifecycle has steps',
  ),
  fault(
    'buffer-kept-on-rejoin',
    'a rejoin is answered with candidates of before',
    'rejoiner: own }); call.buffer = [];',
    'rejoiner: own });',
  ),
  fault(
    'late-close-undoes-the-new-seat',
    'the late end of an old connection takes the seat of the new one',
    'if (seat.socket) seatsOf.get(seat.socket)?.delete(call);',
    ';',
  ),
  fault(
    'any-device-acts',
    'a second device of a party acts in the live call',
    "if (seat.socket !== r.socket) throw new Refusal('Not the active device');",
    ';',
  ),
  fault('survivor-rejoins', 'whoever is still there may rejoin as well', '? phase.dropped === own', '? true'),
  fault(
    'outsider-candidate-relayed',
    'a candidate of an outsider reaches the offerer',
    'return; // candidates trail naturally before the offer and after the end',
    `return;
      const { offerer, answerer } = find(r);
      if (r.user !== offerer.user && r.user !== answerer.user) return void offerer.socket?.emit('ice-candidate', r.body);`,
  ),
  fault(
    'candidate-to-oneself',
    'a candidate comes back to the one who sent it',
    "else other.socket?.emit('ice-candidate', r.body);",
    "else own.socket?.emit('ice-candidate', r.body);",
  ),
  fault(
    'membership-unchecked',
    'who is in no such conversation may offer a call in it',
    'if (participants?.length !== 2 || !participants.includes(r.user) || other === undefined) {',
    'if (other === undefined) {',
  ),
  fault(
    'one-device-rings',
    'an offer reaches one device of the callee only',
    "toUser(call, other).emit('call-offer', relayed(r, 'offer'));",
    `call.namespace.in(\`user:\${other}\`).fetchSockets().then(([one]) => one?.emit('call-offer', relayed(r, 'offer')));`,
  ),
  fault(
    'answered-elsewhere-missing',
    'the other devices of the callee ring on after the answer',
    ".emit('call-ended', ended(call, 'answered-elsewhere', own.user));",
    '.emit;',
  ),
  fault(
    'decline-rings-on',
    'the other devices of the callee ring on after the call was ended',
    "if (ringing) toUser(call, call.answerer.user).except(r.socket.id).emit('call-ended', message);",
    ';',
  ),
  fault(
    'hangup-comes-back',
    'whoever hangs up is told of it as well',
    "if (socket !== r.socket) socket?.emit('call-ended', message);",
    "socket?.emit('call-ended', message);",
  ),
  fault(
    'hangup-reason',
    'another reason for a hangup',
    "ended(call, 'hangup', own.user)",
    "ended(call, 'ended', own.user)",
  ),
  fault(
    'hangup-names-the-other',
    'a hangup names the one who did not hang up',
    "ended(call, 'hangup', own.user)",
    "ended(call, 'hangup', own === call.offerer ? call.answerer.user : call.offerer.user)",
  ),
  fault(
    'offerer-left-reason',
    'another reason where the offerer leaves before the answer',
    "ended(call, 'offerer-left', offerer.user)",
    "ended(call, 'hangup', offerer.user)",
    'the witnesses of a drop go by this event',
  ),
  fault(
    'timeout-not-told',
    'nobody is told when a rejoin does not come',
    "survivor.socket?.emit('call-ended', ended(call, 'rejoin-timeout', phase.dropped.user));",
    ';',
    'no time passes in them',
  ),
  fault(
    'peer-disconnected-missing',
    'the survivor is not told that the other side is gone',
    "other.socket.emit('call-peer-disconnected', { conversationId: call.conversationId, userId: own.user });",
    ';',
  ),
  fault(
    'peer-disconnected-names-the-survivor',
    'the survivor is told that it is gone itself',
    '{ conversationId: call.conversationId, userId: own.user }',
    '{ conversationId: call.conversationId, userId: other.user }',
  ),
  fault(
    'drop-ends-the-call',
    'a lost seat ends the call instead of waiting for it',
    "enter(call, { state: 'AWAITING_REJOIN', dropped: own, since: Date.now() });",
    'end(call);',
  ),
  fault(
    'both-lost-waits',
    'a call that both sides have left still waits',
    '} else if (!other.socket?.connected) {',
    '} else if (!other.socket) { own.socket = undefined; } else if (false) {',
  ),
];

const wire: readonly Fault[] = [
  fault(
    'ack-missing',
    'a renegotiation is not acknowledged',
    'if (ack) ack(candidates ?? { ok: true });',
    "if (ack) { if (event !== 'call-renegotiate-offer') ack(candidates ?? { ok: true }); }",
  ),
  fault(
    'ack-missing-on-refusal',
    'a refused answer is not acknowledged: the client hangs',
    'ack?.(listed ? [] : { ok: false, error: message });',
    'if (!listed) ack?.({ ok: false, error: message });',
  ),
  fault(
    'refused-answer-ack',
    'a refused answer is acknowledged as everything else is',
    'ack?.(listed ? [] : { ok: false, error: message });',
    'ack?.({ ok: false, error: message });',
  ),
  fault(
    'unasked-candidates-together',
    'an answer that asked for no acknowledgement gets its candidates in one event',
    "else for (const candidate of candidates ?? []) socket.emit('ice-candidate', candidate);",
    "else if (candidates?.length) socket.emit('ice-candidate', ...candidates);",
  ),
  {
    name: 'order-of-a-refusal',
    what: 'the sender of a refused request gets the acknowledgement before the error',
    edits: [
      {
        at: 'const message = known ? error.message',
        to: "const tell = () => socket.emit('error', { event, ...(conversationId === undefined ? {} : { conversationId }), message }); const message = known ? error.message",
      },
      {
        at: "socket.emit('error', conversationId === undefined ? { event, message } : { event, conversationId, message });",
        to: ';',
      },
      {
        at: 'ack?.(listed ? [] : { ok: false, error: message });',
        to: 'ack?.(listed ? [] : { ok: false, error: message }); tell();',
      },
    ],
  },
  fault(
    'event-doubled',
    'an answer reaches the offerer twice',
    "other.socket?.emit('call-answer', relayed(r, 'answer'));",
    "for (let i = 0; i < 2; i++) other.socket?.emit('call-answer', relayed(r, 'answer'));",
  ),
  fault(
    'event-doubled-late',
    'a renegotiation reaches the other side a second time, a moment later',
    "other.socket?.emit('call-renegotiate-offer', relayed(r, 'offer'));",
    "other.socket?.emit('call-renegotiate-offer', relayed(r, 'offer')); setImmediate(() => other.socket?.emit('call-renegotiate-offer', relayed(r, 'offer')));",
  ),
  fault(
    'order-of-keys',
    'the keys of what is relayed stand in another order',
    'return { conversationId: r.conversationId, [field]: r.body, fromUserId: r.user };',
    'return { conversationId: r.conversationId, fromUserId: r.user, [field]: r.body };',
  ),
  fault(
    'wrong-sender',
    'what is relayed names no sender',
    'return { conversationId: r.conversationId, [field]: r.body, fromUserId: r.user };',
    'return { conversationId: r.conversationId, [field]: r.body };',
  ),
  fault(
    'error-without-conversation',
    'an error does not say which conversation it is about',
    'conversationId === undefined ? { event, message }',
    'true ? { event, message }',
  ),
  fault(
    'malformed-order',
    'a missing body is complained about before a missing conversation',
    'if (conversationIdOf(payload) === undefined) {',
    'if (conversationIdOf(payload) === undefined && (!FIELD[event] || payload[FIELD[event]] != null)) {',
  ),
  fault(
    'id-length',
    'a conversation id of more than 256 characters is taken',
    'MAX_ID = 256;',
    'MAX_ID = 512;',
    'their conversation ids are short',
  ),
];

/** Each text of a refusal, wherever it is given: another full stop is another text. */
const texts: readonly Fault[] = Object.entries({
  'offer-by-outsider': "throw new Refusal('Not a participant');",
  'offer-while-recovering': "throw new Refusal('Call is recovering, rejoin instead');",
  'second-offer': "throw new Refusal('Call already in progress');",
  'no-such-call': "throw new Refusal('No such call');",
  outsider: "outsider = 'Not a participant'",
  'answer-by-outsider': "ringing ? 'Not allowed to answer'",
  'answer-by-offerer': "throw new Refusal('Not allowed to answer');",
  'nothing-to-answer': "throw new Refusal('No offer to answer');",
  'other-device': "throw new Refusal('Not the active device');",
  'renegotiation-in-a-state': 'throw new Refusal(`Cannot renegotiate from state ${phase.state}`);',
  'renegotiation-twice': 'phase.by === own ? `Cannot renegotiate from state ${phase.state}`',
  glare: "'Renegotiation in progress, retry later'",
  'no-renegotiation': "call.phase.state !== 'RENEGOTIATING') throw new Refusal('No renegotiation to answer');",
  'own-renegotiation': "call.phase.by === own) throw new Refusal('No renegotiation to answer');",
  'nothing-to-rejoin': "throw new Refusal('Nothing to rejoin');",
  'rejoin-by-outsider': "awaiting ? 'Nothing to rejoin'",
  'no-rejoin-to-answer': "throw new Refusal('No rejoin to answer');",
  'no-map': '`Malformed ${event}: payload must be an object`',
  'no-conversation': '`Malformed ${event}: ${rule}`',
  'no-field': '`Malformed ${event}: ${field} is missing`',
}).map(([name, at]) => fault(`text-${name}`, 'another text', at, at.replace(/(['`])(\)?;?)$/, '.$1$2')));

export const faults: readonly Fault[] = [...behaviour, ...wire, ...texts];
