// What random lifecycles look like, for fast-check: who takes part and what they do, likely things more often. Knows nothing
// of the contract or of targets.
import fc from 'fast-check';
import type { DeviceChoice, Form, Lifecycle, Move } from './moves.js';

const ack = fc.oneof({ weight: 5, arbitrary: fc.constant(true) }, { weight: 1, arbitrary: fc.constant(false) });
const any = fc.nat(59);

const form = fc.oneof(
  { weight: 12, arbitrary: fc.constant<Form>('text') },
  { weight: 3, arbitrary: fc.constantFrom<Form>('map', 'list', 'number', 'binary') },
  { weight: 1, arbitrary: fc.constantFrom<Form>('no-field', 'null-field', 'no-conversation', 'no-map') },
);

const move: fc.Arbitrary<Move> = fc.oneof(
  { weight: 12, arbitrary: fc.record({ move: fc.constant('fitting' as const), pick: fc.nat(9_999), ack }) },
  { weight: 3, arbitrary: fc.record({ move: fc.constant('unfitting' as const), pick: fc.nat(9_999), ack }) },
  {
    weight: 3,
    arbitrary: fc.record({
      move: fc.constant('any' as const),
      device: any,
      event: any,
      // The first conversation most of the time.
      conversation: fc.oneof({ weight: 4, arbitrary: fc.constant(0) }, { weight: 1, arbitrary: any }),
      form,
      ack,
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      move: fc.constant('drop' as const),
      device: any,
      how: fc.constantFrom('disconnect' as const, 'close' as const, 'fin' as const, 'rst' as const),
    }),
  },
  { weight: 1, arbitrary: fc.record({ move: fc.constant('connect' as const), device: any, other: fc.boolean() }) },
  { weight: 1, arbitrary: fc.record({ move: fc.constant('replace' as const), device: any, other: fc.boolean() }) },
  { weight: 1, arbitrary: fc.record({ move: fc.constant('drop-old' as const), device: any }) },
);

const device: fc.Arbitrary<DeviceChoice> = fc.record({
  transport: fc.oneof(
    { weight: 2, arbitrary: fc.constant('websocket' as const) },
    { weight: 1, arbitrary: fc.constant('polling' as const) },
  ),
  elsewhere: fc.oneof({ weight: 14, arbitrary: fc.constant(false) }, { weight: 1, arbitrary: fc.constant(true) }),
});
const user = fc.oneof(
  { weight: 2, arbitrary: fc.tuple(device) },
  { weight: 1, arbitrary: fc.tuple(device, device) },
) as fc.Arbitrary<readonly DeviceChoice[]>;

export const lifecycles: fc.Arbitrary<Lifecycle> = fc.record({
  users: fc.oneof(
    { weight: 3, arbitrary: fc.tuple(user, user) },
    { weight: 2, arbitrary: fc.tuple(user, user, user) },
    { weight: 1, arbitrary: fc.tuple(user, user, user, user) },
  ) as fc.Arbitrary<readonly (readonly DeviceChoice[])[]>,
  namespace: fc.oneof(
    { weight: 5, arbitrary: fc.constant('/' as const) },
    { weight: 1, arbitrary: fc.constant('/calls' as const) },
  ),
  group: fc.oneof({ weight: 6, arbitrary: fc.constant(false) }, { weight: 1, arbitrary: fc.constant(true) }),
  moves: fc.array(move, { minLength: 1, maxLength: 30, size: 'max' }),
});
