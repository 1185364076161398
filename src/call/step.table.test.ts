// Every browser's event in every situation by every sender, written out from docs/calls.md: tables of short names, and beneath
// them what each name means. A missing row or column fails.
import { describe, expect, it } from 'vitest';
import { eventOf, NOW, shown, situations, table } from './call.fixtures.js';
import { step } from './step.js';

const tables: Readonly<Record<string, string>> = {
  'call-offer': `
            O1     O2     A1     A2     X1
  IDLE      ringO1 ringO2 ringA1 ringA2 out
  FIRST     busy   busy   busy   busy   out
  CONNECTED busy   busy   busy   busy   out
  RENEG-O   busy   busy   busy   busy   out
  RENEG-A   busy   busy   busy   busy   out
  AWAIT-O   recov  recov  recov  recov  out
  AWAIT-A   recov  recov  recov  recov  out
  AWAIT-Ol  recov  recov  recov  recov  out
  AWAIT-Al  recov  recov  recov  recov  out
  REJOIN-O  busy   busy   busy   busy   out
  REJOIN-A  busy   busy   busy   busy   out
  BOTH      recov  recov  recov  recov  out
  BOTH+O    recov  recov  recov  recov  out
  BOTH+A    recov  recov  recov  recov  out
  BOTH+OA   recov  recov  recov  recov  out
  KEPT-O    busy   busy   busy   busy   out
  KEPT-O+A  busy   busy   busy   busy   out
  KEPT-A    busy   busy   busy   busy   out
  KEPT-A+O  busy   busy   busy   busy   out`,
  'call-answer': `
            O1     O2     A1     A2     X1
  IDLE      nocall nocall nocall nocall nocall
  FIRST     notans notans ansA1  ansA2  notans
  CONNECTED nooff  nooff  nooff  nooff  out
  RENEG-O   nooff  nooff  nooff  nooff  out
  RENEG-A   nooff  nooff  nooff  nooff  out
  AWAIT-O   nooff  nooff  nooff  nooff  out
  AWAIT-A   nooff  nooff  nooff  nooff  out
  AWAIT-Ol  nooff  nooff  nooff  nooff  out
  AWAIT-Al  nooff  nooff  nooff  nooff  out
  REJOIN-O  nooff  nooff  nooff  nooff  out
  REJOIN-A  nooff  nooff  nooff  nooff  out
  BOTH      nooff  nooff  nooff  nooff  out
  BOTH+O    nooff  nooff  nooff  nooff  out
  BOTH+A    nooff  nooff  nooff  nooff  out
  BOTH+OA   nooff  nooff  nooff  nooff  out
  KEPT-O    nooff  nooff  nooff  nooff  out
  KEPT-O+A  nooff  nooff  nooff  nooff  out
  KEPT-A    nooff  nooff  nooff  nooff  out
  KEPT-A+O  nooff  nooff  nooff  nooff  out`,
  'ice-candidate': `
            O1     O2     A1     A2     X1
  IDLE      trail  trail  trail  trail  trail
  FIRST     buf    buf    iceO1  iceO1  out
  CONNECTED iceA1  inact  iceO1  inact  out
  RENEG-O   iceA1  inact  iceO1  inact  out
  RENEG-A   iceA1  inact  iceO1  inact  out
  AWAIT-O   lost   lost   lost   lost   out     // the state comes before the device
  AWAIT-A   lost   lost   lost   lost   out
  AWAIT-Ol  lost   lost   lost   lost   out
  AWAIT-Al  lost   lost   lost   lost   out
  REJOIN-O  buf    inact  iceO1  inact  out
  REJOIN-A  iceA1  inact  buf    inact  out
  BOTH      lost   lost   lost   lost   out
  BOTH+O    lost   lost   lost   lost   out
  BOTH+A    lost   lost   lost   lost   out
  BOTH+OA   lost   lost   lost   lost   out
  KEPT-O    buf    inact  iceO1  iceO1  out     // the other's seat is whichever socket answers
  KEPT-O+A  buf    inact  iceO1  iceO1  out
  KEPT-A    iceA1  iceA1  buf    inact  out
  KEPT-A+O  iceA1  iceA1  buf    inact  out`,
  'call-renegotiate-offer': `
            O1     O2     A1     A2     X1
  IDLE      nocall nocall nocall nocall nocall
  FIRST     fromO  fromO  fromO  fromO  out
  CONNECTED renegO inact  renegA inact  out
  RENEG-O   fromR  inact  glare  inact  out
  RENEG-A   glare  inact  fromR  inact  out
  AWAIT-O   fromW  fromW  fromW  fromW  out
  AWAIT-A   fromW  fromW  fromW  fromW  out
  AWAIT-Ol  fromW  fromW  fromW  fromW  out
  AWAIT-Al  fromW  fromW  fromW  fromW  out
  REJOIN-O  fromO  fromO  fromO  fromO  out
  REJOIN-A  fromO  fromO  fromO  fromO  out
  BOTH      fromW  fromW  fromW  fromW  out
  BOTH+O    fromW  fromW  fromW  fromW  out
  BOTH+A    fromW  fromW  fromW  fromW  out
  BOTH+OA   fromW  fromW  fromW  fromW  out
  KEPT-O    fromO  fromO  fromO  fromO  out
  KEPT-O+A  fromO  fromO  fromO  fromO  out
  KEPT-A    fromO  fromO  fromO  fromO  out
  KEPT-A+O  fromO  fromO  fromO  fromO  out`,
  'call-renegotiate-answer': `
            O1     O2     A1     A2     X1
  IDLE      nocall nocall nocall nocall nocall
  FIRST     noren  noren  noren  noren  out
  CONNECTED noren  noren  noren  noren  out
  RENEG-O   noren  inact  doneA  inact  out
  RENEG-A   doneO  inact  noren  inact  out
  AWAIT-O   noren  noren  noren  noren  out
  AWAIT-A   noren  noren  noren  noren  out
  AWAIT-Ol  noren  noren  noren  noren  out
  AWAIT-Al  noren  noren  noren  noren  out
  REJOIN-O  noren  noren  noren  noren  out
  REJOIN-A  noren  noren  noren  noren  out
  BOTH      noren  noren  noren  noren  out
  BOTH+O    noren  noren  noren  noren  out
  BOTH+A    noren  noren  noren  noren  out
  BOTH+OA   noren  noren  noren  noren  out
  KEPT-O    noren  noren  noren  noren  out
  KEPT-O+A  noren  noren  noren  noren  out
  KEPT-A    noren  noren  noren  noren  out
  KEPT-A+O  noren  noren  noren  noren  out`,
  'call-rejoin-offer': `
            O1     O2     A1     A2     X1
  IDLE      nocall nocall nocall nocall nocall
  FIRST     norej  norej  norej  norej  out
  CONNECTED norej  moveO  norej  moveA  out
  RENEG-O   norej  rmovO  norej  rmovOA out
  RENEG-A   norej  rmovAO norej  rmovA  out
  AWAIT-O   backO1 backO2 norej  norej  norej
  AWAIT-A   norej  norej  backA1 backA2 norej
  AWAIT-Ol  backO1 backO2 norej  norej  norej
  AWAIT-Al  norej  norej  backA1 backA2 norej
  REJOIN-O  norej  agnO   norej  swapA  out
  REJOIN-A  norej  swapO  norej  agnA   out
  BOTH      keepO1 keepO2 keepA1 keepA2 norej
  BOTH+O    kbacO1 kbacO2 kostA1 kostA2 norej
  BOTH+A    kostO1 kostO2 kbacA1 kbacA2 norej
  BOTH+OA   kallO1 kallO2 kallA1 kallA2 norej
  KEPT-O    norej  kagnO  showA1 showA2 out
  KEPT-O+A  norej  kagnO  sameA1 seatA2 out
  KEPT-A    showO1 showO2 norej  kagnA  out
  KEPT-A+O  sameO1 seatO2 norej  kagnA  out`,
  'call-rejoin-answer': `
            O1     O2     A1     A2     X1
  IDLE      nocall nocall nocall nocall nocall
  FIRST     noans  noans  noans  noans  out
  CONNECTED noans  noans  noans  noans  out
  RENEG-O   noans  noans  noans  noans  out
  RENEG-A   noans  noans  noans  noans  out
  AWAIT-O   noans  noans  noans  noans  out
  AWAIT-A   noans  noans  noans  noans  out
  AWAIT-Ol  noans  noans  noans  noans  out
  AWAIT-Al  noans  noans  noans  noans  out
  REJOIN-O  noans  noans  rejA   inact  out
  REJOIN-A  rejO   inact  noans  noans  out
  BOTH      noans  noans  noans  noans  out
  BOTH+O    noans  noans  noans  noans  out
  BOTH+A    noans  noans  noans  noans  out
  BOTH+OA   noans  noans  noans  noans  out
  KEPT-O    noans  noans  klosA1 klosA2 out
  KEPT-O+A  noans  noans  krejA1 krejA2 out
  KEPT-A    klosO1 klosO2 noans  noans  out
  KEPT-A+O  krejO1 krejO2 noans  noans  out`,
  'call-end': `
            O1     O2     A1     A2     X1
  IDLE      nocall nocall nocall nocall nocall
  FIRST     fendO1 fendO2 fendA1 fendA2 out
  CONNECTED endO1  endO2  endA1  endA2  out
  RENEG-O   endO1  endO2  endA1  endA2  out
  RENEG-A   endO1  endO2  endA1  endA2  out
  AWAIT-O   endO1  toA    silent toO.A  out     // toO.A: the survivor's other device tells the survivor's seat
  AWAIT-A   silent toA.O  endA1  toO    out
  AWAIT-Ol  endO1  toA    silent toO.A  out
  AWAIT-Al  silent toA.O  endA1  toO    out
  REJOIN-O  endO1  endO2  endA1  endA2  out
  REJOIN-A  endO1  endO2  endA1  endA2  out
  BOTH      bothO1 bothO2 bothA1 bothA2 out
  BOTH+O    bkO.O1 bkO.O2 bkO.A1 bkO.A2 out
  BOTH+A    bkA.O1 bkA.O2 bkA.A1 bkA.A2 out
  BOTH+OA   endO1  endO2  endA1  endA2  out
  KEPT-O    bkO.O1 bkO.O2 bkO.A1 bkO.A2 out
  KEPT-O+A  endO1  endO2  endA1  endA2  out
  KEPT-A    bkA.O1 bkA.O2 bkA.A1 bkA.A2 out
  KEPT-A+O  endO1  endO2  endA1  endA2  out`,
  arrived: `
            O1     O2     A1     A2     X1
  IDLE      -      -      -      -      -
  FIRST     -      -      -      -      -
  CONNECTED -      -      -      -      -
  RENEG-O   -      -      -      -      -
  RENEG-A   -      -      -      -      -
  AWAIT-O   -      -      -      -      -
  AWAIT-A   -      -      -      -      -
  AWAIT-Ol  -      -      -      -      -
  AWAIT-Al  -      -      -      -      -
  REJOIN-O  -      -      -      -      -
  REJOIN-A  -      -      -      -      -
  BOTH      retO1  retO2  retA1  retA2  -
  BOTH+O    -      -      lretA1 lretA2 -
  BOTH+A    lretO1 lretO2 -      -      -
  BOTH+OA   -      -      -      -      -
  KEPT-O    -      -      kretA1 kretA2 -
  KEPT-O+A  -      -      -      shwA2  -       // a further socket of the awaited user sees the offer too
  KEPT-A    kretO1 kretO2 -      -      -
  KEPT-A+O  -      shwO2  -      -      -`,
};

const ok = 'ack {"ok":true}';
const list = 'ack ["b1","b2"]';
const who = (user: string, what = 'offer', sdp = 'sdp') =>
  `{"conversationId":"c","${what}":"${sdp}","fromUserId":"${user}"}`;
const hung = (user: string) => `call-ended {"conversationId":"c","reason":"hangup","userId":"${user}"}`;
const ring = (me: string, other: string, socket: string) =>
  `state=OFFERING since=now O=${socket} A=- lost= both=no by=O rejoining=no buffer=e1 kept=- ` +
  `fixed=["/","c","call-2",1000000,{"offerer":"${me}","answerer":"${other}"}] | call-offer ${who(me)} > ${other}* | ${ok}`;
const answered = (socket: string) =>
  `state=CONNECTED since=now A=${socket} by=- buffer= | call-answer ${who('A', 'answer')} > O1 | ` +
  `call-ended {"conversationId":"c","reason":"answered-elsewhere","userId":"A"} > A*-${socket} | ${list}`;
const keptBy = (by: string, to: string, change: string) =>
  `state=OFFERING since=now ${change} by=${by} rejoining=yes kept=sdp | call-rejoin-offer ${who(by)} > ${to}* | ${ok}`;
const showing = (change: string, to: string, by: string) =>
  `${change} | no: Rejoin in progress, answer it | call-rejoin-offer ${who(by, 'offer', 'KEPT')} > ${to}`;
const rejoined = (seat: string, by: string, to: string) =>
  `state=CONNECTED since=now ${seat}both=no by=- rejoining=no buffer= kept=- | ` +
  `call-rejoin-answer ${who(by, 'answer')} > ${to} | ${list}`;

const meaning: Readonly<Record<string, string>> = {
  '-': 'same',
  nocall: 'same | no: No such call',
  out: 'same | no: Not a participant',
  busy: 'same | no: Call already in progress',
  recov: 'same | no: Call is recovering, rejoin instead',
  notans: 'same | no: Not allowed to answer',
  nooff: 'same | no: No offer to answer',
  inact: 'same | no: Not the active device',
  glare: 'same | no: Renegotiation in progress, retry later',
  fromO: 'same | no: Cannot renegotiate from state OFFERING',
  fromR: 'same | no: Cannot renegotiate from state RENEGOTIATING',
  fromW: 'same | no: Cannot renegotiate from state AWAITING_REJOIN',
  noren: 'same | no: No renegotiation to answer',
  norej: 'same | no: Nothing to rejoin',
  noans: 'same | no: No rejoin to answer',

  ringO1: ring('O', 'A', 'O1'),
  ringO2: ring('O', 'A', 'O2'),
  ringA1: ring('A', 'O', 'A1'),
  ringA2: ring('A', 'O', 'A2'),
  ansA1: answered('A1'),
  ansA2: answered('A2'),

  trail: `same | dropped no-call | ${ok}`,
  lost: `same | dropped awaiting-rejoin | ${ok}`,
  buf: `buffer=b1,b2,ice | ${ok}`,
  iceO1: `same | ice-candidate "ice" > O1 | ${ok}`,
  iceA1: `same | ice-candidate "ice" > A1 | ${ok}`,

  renegO: `state=RENEGOTIATING since=now by=O | call-renegotiate-offer ${who('O')} > A1 | ${ok}`,
  renegA: `state=RENEGOTIATING since=now by=A | call-renegotiate-offer ${who('A')} > O1 | ${ok}`,
  doneA: `state=CONNECTED since=now by=- | call-renegotiate-answer ${who('A', 'answer')} > O1 | ${ok}`,
  doneO: `state=CONNECTED since=now by=- | call-renegotiate-answer ${who('O', 'answer')} > A1 | ${ok}`,

  moveO: `state=OFFERING since=now O=O2 by=O rejoining=yes | call-rejoin-offer ${who('O')} > A1 | ${ok}`,
  moveA: `state=OFFERING since=now A=A2 by=A rejoining=yes | call-rejoin-offer ${who('A')} > O1 | ${ok}`,
  rmovO: `state=OFFERING since=now O=O2 rejoining=yes | call-rejoin-offer ${who('O')} > A1 | ${ok}`,
  rmovA: `state=OFFERING since=now A=A2 rejoining=yes | call-rejoin-offer ${who('A')} > O1 | ${ok}`,
  rmovOA: `state=OFFERING since=now A=A2 by=A rejoining=yes | call-rejoin-offer ${who('A')} > O1 | ${ok}`,
  rmovAO: `state=OFFERING since=now O=O2 by=O rejoining=yes | call-rejoin-offer ${who('O')} > A1 | ${ok}`,
  backO1: `state=OFFERING since=now lost= by=O rejoining=yes | call-rejoin-offer ${who('O')} > A1 | ${ok}`,
  backO2: `state=OFFERING since=now O=O2 lost= by=O rejoining=yes | call-rejoin-offer ${who('O')} > A1 | ${ok}`,
  backA1: `state=OFFERING since=now lost= by=A rejoining=yes | call-rejoin-offer ${who('A')} > O1 | ${ok}`,
  backA2: `state=OFFERING since=now A=A2 lost= by=A rejoining=yes | call-rejoin-offer ${who('A')} > O1 | ${ok}`,
  agnO: `since=now O=O2 buffer= | call-rejoin-offer ${who('O')} > A1 | ${ok}`,
  agnA: `since=now A=A2 buffer= | call-rejoin-offer ${who('A')} > O1 | ${ok}`,
  swapO: `since=now O=O2 by=O buffer= | call-rejoin-offer ${who('O')} > A1 | ${ok}`,
  swapA: `since=now A=A2 by=A buffer= | call-rejoin-offer ${who('A')} > O1 | ${ok}`,
  rejA: `state=CONNECTED since=now by=- rejoining=no buffer= | call-rejoin-answer ${who('A', 'answer')} > O1 | ${list}`,
  rejO: `state=CONNECTED since=now by=- rejoining=no buffer= | call-rejoin-answer ${who('O', 'answer')} > A1 | ${list}`,

  // Both were lost: the first offer goes to every socket that the other has by then, and is kept.
  keepO1: keptBy('O', 'A', 'lost=A:legacy'),
  keepO2: keptBy('O', 'A', 'O=O2 lost=A:legacy'),
  keepA1: keptBy('A', 'O', 'lost=O:legacy'),
  keepA2: keptBy('A', 'O', 'A=A2 lost=O:legacy'),
  kbacO1: `state=OFFERING since=now by=O rejoining=yes kept=sdp | call-rejoin-offer ${who('O')} > A* | ${ok}`,
  kbacO2: keptBy('O', 'A', 'O=O2'),
  kostA1: keptBy('A', 'O', 'lost='),
  kostA2: keptBy('A', 'O', 'A=A2 lost='),
  kostO1: keptBy('O', 'A', 'lost='),
  kostO2: keptBy('O', 'A', 'O=O2 lost='),
  kbacA1: `state=OFFERING since=now by=A rejoining=yes kept=sdp | call-rejoin-offer ${who('A')} > O* | ${ok}`,
  kbacA2: keptBy('A', 'O', 'A=A2'),
  kallO1: `state=OFFERING since=now by=O rejoining=yes kept=sdp | call-rejoin-offer ${who('O')} > A* | ${ok}`,
  kallO2: keptBy('O', 'A', 'O=O2'),
  kallA1: `state=OFFERING since=now by=A rejoining=yes kept=sdp | call-rejoin-offer ${who('A')} > O* | ${ok}`,
  kallA2: keptBy('A', 'O', 'A=A2'),
  kagnO: `since=now O=O2 buffer= kept=sdp | call-rejoin-offer ${who('O')} > A* | ${ok}`,
  kagnA: `since=now A=A2 buffer= kept=sdp | call-rejoin-offer ${who('A')} > O* | ${ok}`,
  showA1: showing('lost=', 'A1', 'O'),
  showA2: showing('A=A2 lost=', 'A2', 'O'),
  sameA1: showing('same', 'A1', 'O'),
  seatA2: showing('A=A2', 'A2', 'O'),
  showO1: showing('lost=', 'O1', 'A'),
  showO2: showing('O=O2 lost=', 'O2', 'A'),
  sameO1: showing('same', 'O1', 'A'),
  seatO2: showing('O=O2', 'O2', 'A'),
  klosA1: rejoined('lost= ', 'A', 'O1'),
  klosA2: rejoined('A=A2 lost= ', 'A', 'O1'),
  krejA1: rejoined('', 'A', 'O1'),
  krejA2: rejoined('A=A2 ', 'A', 'O1'),
  klosO1: rejoined('lost= ', 'O', 'A1'),
  klosO2: rejoined('O=O2 lost= ', 'O', 'A1'),
  krejO1: rejoined('', 'O', 'A1'),
  krejO2: rejoined('O=O2 ', 'O', 'A1'),
  retO1: 'lost=A:legacy',
  retO2: 'O=O2 lost=A:legacy',
  retA1: 'lost=O:legacy',
  retA2: 'A=A2 lost=O:legacy',
  lretA1: 'lost=',
  lretA2: 'A=A2 lost=',
  lretO1: 'lost=',
  lretO2: 'O=O2 lost=',
  kretA1: `lost= | call-rejoin-offer ${who('O', 'offer', 'KEPT')} > A1`,
  kretA2: `A=A2 lost= | call-rejoin-offer ${who('O', 'offer', 'KEPT')} > A2`,
  kretO1: `lost= | call-rejoin-offer ${who('A', 'offer', 'KEPT')} > O1`,
  kretO2: `O=O2 lost= | call-rejoin-offer ${who('A', 'offer', 'KEPT')} > O2`,
  shwA2: `same | call-rejoin-offer ${who('O', 'offer', 'KEPT')} > A2`,
  shwO2: `same | call-rejoin-offer ${who('A', 'offer', 'KEPT')} > O2`,

  fendO1: `gone | ${hung('O')} > A*-O1 | ${ok}`,
  fendO2: `gone | ${hung('O')} > O1 | ${hung('O')} > A*-O2 | ${ok}`,
  fendA1: `gone | ${hung('A')} > O1 | ${hung('A')} > A*-A1 | ${ok}`,
  fendA2: `gone | ${hung('A')} > O1 | ${hung('A')} > A*-A2 | ${ok}`,
  endO1: `gone | ${hung('O')} > A1 | ${ok}`,
  endO2: `gone | ${hung('O')} > O1 | ${hung('O')} > A1 | ${ok}`,
  endA1: `gone | ${hung('A')} > O1 | ${ok}`,
  endA2: `gone | ${hung('A')} > O1 | ${hung('A')} > A1 | ${ok}`,
  toA: `gone | ${hung('O')} > A1 | ${ok}`,
  toO: `gone | ${hung('A')} > O1 | ${ok}`,
  'toO.A': `gone | ${hung('A')} > A1 | ${ok}`,
  'toA.O': `gone | ${hung('O')} > O1 | ${ok}`,
  silent: `gone | ${ok}`,
  bothO1: `gone | ${hung('O')} > O*-O1 | ${hung('O')} > A*-O1 | ${ok}`,
  bothO2: `gone | ${hung('O')} > O*-O2 | ${hung('O')} > A*-O2 | ${ok}`,
  bothA1: `gone | ${hung('A')} > O*-A1 | ${hung('A')} > A*-A1 | ${ok}`,
  bothA2: `gone | ${hung('A')} > O*-A2 | ${hung('A')} > A*-A2 | ${ok}`,
  'bkO.O1': `gone | ${hung('O')} > A*-O1 | ${ok}`,
  'bkO.O2': `gone | ${hung('O')} > O1 | ${hung('O')} > A*-O2 | ${ok}`,
  'bkO.A1': `gone | ${hung('A')} > O1 | ${hung('A')} > A*-A1 | ${ok}`,
  'bkO.A2': `gone | ${hung('A')} > O1 | ${hung('A')} > A*-A2 | ${ok}`,
  'bkA.O1': `gone | ${hung('O')} > O*-O1 | ${hung('O')} > A1 | ${ok}`,
  'bkA.O2': `gone | ${hung('O')} > O*-O2 | ${hung('O')} > A1 | ${ok}`,
  'bkA.A1': `gone | ${hung('A')} > O*-A1 | ${ok}`,
  'bkA.A2': `gone | ${hung('A')} > O*-A2 | ${hung('A')} > A1 | ${ok}`,
};

describe.each(Object.entries(tables))('%s', (type, text) => {
  const cells = table(text);

  it('names every situation and sender once', () => {
    const senders = ['O1', 'O2', 'A1', 'A2', 'X1'];
    const all = Object.keys(situations).flatMap((row) => senders.map((column) => `${row} ${column}`));
    expect(cells.map(({ row, column }) => `${row} ${column}`).sort()).toEqual(all.sort());
  });

  it.each(cells)('$row, by $column: $cell', ({ row, column, cell }) => {
    const before = situations[row] ?? null;
    const after = step(before, eventOf(type, column), NOW);
    expect(shown(before, after)).toBe(meaning[cell] ?? `no meaning of ${cell}`);
    if (after.session && after.session !== before) expect(after.session.version).toBe((before?.version ?? 0) + 1);
    expect(after.because).toMatch(/^[a-z-]+$/);
  });
});

it('uses every meaning', () => {
  const used = new Set(Object.values(tables).flatMap((text) => table(text).map(({ cell }) => cell)));
  expect(Object.keys(meaning).filter((name) => !used.has(name))).toEqual([]);
});

// The one word that a log line and the dashboard show.
it.each([
  ['IDLE', 'call-offer', 'O1', 'offered'],
  ['IDLE', 'ice-candidate', 'O1', 'no-call'],
  ['IDLE', 'call-end', 'O1', 'no-such-call'],
  ['FIRST', 'call-answer', 'A1', 'answered'],
  ['FIRST', 'ice-candidate', 'O1', 'awaiting-answer'],
  ['FIRST', 'ice-candidate', 'A1', 'relayed'],
  ['CONNECTED', 'call-renegotiate-offer', 'O1', 'renegotiate'],
  ['RENEG-O', 'call-renegotiate-answer', 'A1', 'renegotiated'],
  ['RENEG-O', 'call-renegotiate-offer', 'A1', 'glare'],
  ['CONNECTED', 'call-rejoin-offer', 'O2', 'seat-moved'],
  ['AWAIT-O', 'call-rejoin-offer', 'O2', 'rejoin'],
  ['AWAIT-O', 'ice-candidate', 'O2', 'awaiting-rejoin'],
  ['REJOIN-O', 'call-rejoin-offer', 'A2', 'rejoin-again'],
  ['REJOIN-O', 'call-rejoin-answer', 'A1', 'rejoined'],
  ['BOTH', 'call-rejoin-offer', 'O2', 'rejoin-kept'],
  ['KEPT-O', 'call-rejoin-offer', 'A2', 'answer-the-rejoin'],
  ['BOTH', 'arrived', 'O2', 'back'],
  ['BOTH+O', 'arrived', 'O2', 'not-awaited'],
  ['KEPT-O', 'arrived', 'A2', 'kept-delivered'],
  ['CONNECTED', 'arrived', 'A2', 'not-awaited'],
  ['CONNECTED', 'call-end', 'A2', 'hangup'],
] as const)('%s, %s by %s: because %s', (situation, type, sender, because) => {
  expect(step(situations[situation] ?? null, eventOf(type, sender), NOW).because).toBe(because);
});
