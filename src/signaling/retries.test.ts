import { expect, it } from 'vitest';
import type { ConnectionNumber, Namespace, SocketId, SocketRef } from '../base/ids.js';
import { Retries } from './retries.js';

const ref: SocketRef = { ns: '/' as Namespace, id: 's' as SocketId, connection: 1 as ConnectionNumber };

it('threat: lists of candidates pile up in the memory of what was answered', () => {
  const retries = new Retries();
  const ask = (call: string) => {
    const answers: unknown[] = [];
    const first = retries.see(ref, call, call, retries.arrival(), (answer) => answers.push(answer));
    first?.served([`candidate of ${call}`], call);
    return answers;
  };
  for (const call of ['1', '2', '3', '4', '5']) expect(ask(call)).toEqual([]);
  expect(ask('5')).toEqual([['candidate of 5']]);
  expect(ask('2')).toEqual([['candidate of 2']]);
  expect(ask('1')).toEqual([]);
});

it('what carries no list is remembered longer', () => {
  const retries = new Retries();
  const ask = (what: string) => {
    const answers: unknown[] = [];
    retries.see(ref, what, 'call', retries.arrival(), (a) => answers.push(a))?.served({ ok: true }, 'call');
    return answers;
  };
  for (let i = 0; i < 60; i++) ask(`${i}`);
  expect(ask('0')).toEqual([{ ok: true }]);
});
