import { expect, it } from 'vitest';
import { manualClock } from '../base/clock.js';
import type { Address, InstanceId } from '../base/ids.js';
import type { LivingInstance } from '../cluster/cluster.js';
import { parseRouteTable, type RouteTable } from '../routing/table.js';
import { Quiet } from './quiet.js';

const tableOf = (yaml: string): RouteTable => {
  const read = parseRouteTable(yaml, 'routes.yaml');
  if (!read.ok) throw new Error(read.problems.join());
  return read.table;
};
const instance = (id: string, calls: unknown, routesVersion: unknown = 7): LivingInstance => ({
  id: `${id}.1` as InstanceId,
  address: id as Address,
  self: id === 'a',
  info: { routesVersion, calls: { new: calls } },
  leaseAgeMs: 100,
});

function bench(yaml = 'namespaces: { /: { calls: legacy } }') {
  const clock = manualClock();
  const state = { table: tableOf(yaml), living: [instance('a', 0), instance('b', 0)] };
  let looked = 0;
  const living = () => {
    looked += 1;
    return state.living;
  };
  const quiet = new Quiet({ cluster: { liveness: { living } }, routes: () => state.table, clock });
  quiet.in('/');
  return { clock, state, quiet, looked: () => looked };
}

it('is quiet once everything has been on the legacy for 90 s and no instance has a call of the new path', () => {
  const { clock, quiet } = bench();
  clock.advance(89_999);
  expect(quiet.in('/')).toBe(false);
  clock.advance(1);
  expect(quiet.in('/')).toBe(true);
  expect(quiet.in('/not-named')).toBe(true);
});

it.each([
  ['another instance has a call', [instance('a', 0), instance('b', 1)]],
  ['another instance has another version', [instance('a', 0), instance('b', 0, 6)]],
  ['another instance does not say', [instance('a', 0), instance('b', null)]],
  ['this instance has not told its version', [instance('a', 0, null), instance('b', 0, null)]],
  ['nobody is known to live', []],
])('is not quiet where %s, and for 90 s after', (_, living) => {
  const { clock, state, quiet } = bench();
  clock.advance(200_000);
  expect(quiet.in('/')).toBe(true);
  const before = state.living;
  state.living = living;
  clock.advance(250);
  expect(quiet.in('/')).toBe(false);
  state.living = before;
  clock.advance(89_999);
  expect(quiet.in('/')).toBe(false);
  clock.advance(1);
  expect(quiet.in('/')).toBe(true);
});

it('begins anew with each table, and never is where calls can begin on the new path', () => {
  const { clock, state, quiet } = bench();
  clock.advance(200_000);
  state.table = tableOf('namespaces: { /: { calls: { mode: canary, percent: 0 } }, /x: { calls: legacy } }');
  expect(quiet.in('/x')).toBe(false);
  clock.advance(90_000);
  expect(quiet.in('/x')).toBe(true);
  expect(quiet.in('/')).toBe(false);
});

it('has nobody told of for each event, and for none where calls can begin on the new path', () => {
  const { clock, state, quiet, looked } = bench();
  clock.advance(200_000);
  for (let n = 0; n < 100; n++) expect(quiet.in('/')).toBe(true);
  expect(looked()).toBe(2);
  state.table = tableOf('namespaces: { /: { calls: new } }');
  for (let n = 0; n < 100; n++) {
    clock.advance(1_000);
    expect(quiet.in('/')).toBe(false);
  }
  expect(looked()).toBe(2);
});
