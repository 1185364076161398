import { Writable } from 'node:stream';
import { describe, expect, test } from 'vitest';
import { manualClock } from '../base/clock.js';
import type { ConversationId, Namespace } from '../base/ids.js';
import { createLogger, loggedSignals } from './log.js';

function captured(level: string, isTTY = false) {
  const written: string[] = [];
  const stream = Object.assign(
    new Writable({
      write(chunk, _encoding, done) {
        written.push(String(chunk));
        done();
      },
    }),
    { isTTY },
  );
  const clock = manualClock();
  const logger = createLogger({ level, stream });
  return {
    written,
    clock,
    logger,
    signals: loggedSignals(logger, clock),
    lines: () => written.map((line) => JSON.parse(line) as Record<string, unknown>),
  };
}
const transition = {
  ns: '/' as Namespace,
  conversationId: 'c1' as ConversationId,
  callId: 'k1',
  from: 'IDLE',
  to: 'OFFERING',
  because: 'offered',
  event: 'call-offer',
} as const;

describe('log lines', () => {
  test("a call's changes at info, decisions at debug", () => {
    const info = captured('info');
    info.signals.transition(transition);
    info.signals.decided('call-offer', { path: 'new', because: 'route' }, '/');
    expect(info.lines()).toEqual([
      { level: 'info', time: expect.any(String), name: 'sigfig', msg: 'call', ...transition },
    ]);
    const debug = captured('debug');
    debug.signals.decided('call-offer', { path: 'new', because: 'route' }, '/');
    debug.signals.connectionClosed('polling', 'browser');
    expect(debug.lines()).toMatchObject([
      { level: 'debug', msg: 'decided', event: 'call-offer', path: 'new', because: 'route' },
      { msg: 'connection closed', transport: 'polling', cause: 'browser' },
    ]);
  });

  test('why the participants could not be learnt, each cause by itself', () => {
    const { signals, lines } = captured('info');
    for (const why of ['no legacy lives', 'no legacy lives', 'the legacy answered 500']) {
      signals.ticket('unavailable', 3, why);
    }
    signals.ticket('granted', 3);
    const msg = 'the participants could not be learnt from the legacy';
    expect(lines()).toMatchObject([
      { level: 'warn', msg, why: 'no legacy lives' },
      { level: 'warn', msg, why: 'the legacy answered 500' },
    ]);
  });

  test('each problem of a route table is a line of its own', () => {
    const { signals, lines } = captured('info');
    signals.routesRejected('r.yaml', ['r.yaml:1: a; b', 'r.yaml:2: c; d']);
    expect(lines().map((line) => line.msg)).toEqual([
      'routes not taken over: r.yaml:1: a; b',
      'routes not taken over: r.yaml:2: c; d',
    ]);
  });

  test('a flood of one cause is one line in 10 s, which later tells how many there were', () => {
    const { signals, clock, lines } = captured('info');
    for (let i = 0; i < 1_000; i++) signals.bound('held', { event: 'call-offer' });
    signals.bound('claims', {});
    clock.advance(10_000);
    signals.bound('held', { event: 'call-offer' });
    expect(lines().map(({ what, suppressed }) => ({ what, suppressed }))).toEqual([
      { what: 'held' },
      { what: 'claims' },
      { what: 'held', suppressed: 999 },
    ]);
  });

  test('threat: a careless line must not show a token, an SDP or a candidate', () => {
    const { logger, written } = captured('info');
    logger.info({ token: 'S3CRET', headers: { authorization: 'S3CRET', cookie: 'S3CRET' }, offer: { sdp: 'S3CRET' } });
    logger.info({ payload: { iceCandidate: 'S3CRET', answer: 'S3CRET', ticket: 'S3CRET' } });
    expect(written.join()).not.toContain('S3CRET');
  });

  test('on a terminal a line is for people, and written at once', () => {
    const { signals, written } = captured('info', true);
    signals.transition(transition);
    expect(written).toHaveLength(1);
    expect(() => JSON.parse(written[0] ?? '')).toThrow();
    expect(written[0]).toContain('OFFERING');
  });

  test('an error is shown with its message and stack', () => {
    const { signals, lines } = captured('info');
    signals.internalError('step', new Error('no such seat'));
    expect(lines()[0]).toMatchObject({ level: 'error', where: 'step', err: { message: 'no such seat' } });
  });
});
