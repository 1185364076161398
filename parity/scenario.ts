// The format of a scenario: what a YAML file in scenarios/ may hold, as zod schemas that the editor's JSON Schema is made
// from, and as the types that the runner plays. Knows nothing of files, lines or how a scenario is played.
import { z } from 'zod';

export const transports = ['websocket', 'polling', 'upgrade'] as const;
export type Transport = (typeof transports)[number];

export const drops = ['fin', 'rst', 'silence', 'close', 'disconnect'] as const;
export type Drop = (typeof drops)[number];

const tokens = ['valid', 'none', 'expired', 'forged', 'short'] as const;
export type TokenKind = (typeof tokens)[number];

const name = z
  .string()
  .regex(/^[a-z][a-z0-9-]*$/, 'use lower case letters, digits and dashes, such as "bob" or "bob-phone"');
const value = z.unknown();
const transport = z.enum(transports).describe('Pins this device to a transport; without it the run chooses.');
const token = z
  .enum(tokens)
  .describe('What it signs in with. "short" is valid for a few seconds: "elapse: token" waits until it has expired.');

const deviceFields = {
  namespace: z.string().regex(/^\//).describe('Socket.IO namespace; "/" without it.').optional(),
  transport: transport.optional(),
  retries: z.number().int().positive().describe("The client's `retries` option: it asks for every ack.").optional(),
  ackTimeout: z.number().int().positive().describe('With retries: milliseconds until it sends again.').optional(),
  token: token.optional(),
  later: z.literal(true).describe('Not connected at the start; a "connect" step does it.').optional(),
  barrier: z
    .string()
    .describe('An event that the backend acknowledges in this namespace and that changes nothing; see the README.')
    .optional(),
};
const device = z.union([name, z.strictObject({ name, ...deviceFields })]);
const party = z
  .strictObject({
    devices: z.array(device).min(1).describe('One device of the name of the party, without it.').optional(),
    ...deviceFields,
  })
  .nullable()
  .describe('A user. Empty: one device with the name of the party.');

const emit = z.strictObject({
  emit: z.string().min(1).describe('The event.'),
  by: name.describe('The device.'),
  payload: value.describe('The one argument. $alice is a user id, $call a conversation id.').optional(),
  args: z.array(value).describe('Instead of payload: these arguments exactly.').optional(),
  ack: z
    .union([z.boolean(), z.literal('later')])
    .describe('true (default): asks and waits. false: does not ask. later: asks, and the next step does not wait.')
    .optional(),
  repeat: z.number().int().positive().max(10_000).describe('As often, at once; $n counts from 0.').optional(),
});
const drop = z.strictObject({
  drop: name.describe('The device that loses its connection.'),
  how: z
    .enum(drops)
    .describe(
      'fin, rst: TCP. silence: stops reading and answering heartbeats. close: closes as a browser tab. disconnect: by a packet.',
    ),
  noticed: z
    .literal(false)
    .describe('Goes on before the server has noticed. Without it the step ends when it has.')
    .optional(),
  old: z.literal(true).describe('Its former connection, which a silence left open, not the one it has now.').optional(),
});
const connect = z.strictObject({
  connect: name.describe('The device gets a fresh connection.'),
  transport: z
    .union([z.enum(transports), z.literal('other')])
    .describe('other: polling where the run plays websocket, and the other way round.')
    .optional(),
  token: token.optional(),
});
const wait = z.strictObject({
  wait: z.string().min(1).describe('Until this event comes ("disconnected" for the end of the connection).'),
  at: name.describe('At this device.'),
});
const elapse = z.strictObject({
  elapse: z
    .union([z.number().positive(), z.literal('token')])
    .describe('Time passes, as a multiple of the rejoin timeout; or until the "short" tokens have expired.'),
});
const flip = z.strictObject({ flip: z.enum(['legacy', 'new']).describe('The call routes of the proxy, from now on.') });
const request = z.strictObject({
  request: z
    .string()
    .regex(/^(GET|POST|PUT|PATCH|DELETE|HEAD) \//, 'write method and path, such as "GET /api/me"')
    .describe('Method and path, such as "GET /api/me".'),
  by: name.describe('The device whose token it carries.'),
  body: value.describe('Sent as JSON; {$binary: text} as bytes.').optional(),
  anonymous: z.literal(true).describe('Without a token.').optional(),
});
const pause = z.strictObject({ pause: name.describe('The device reads nothing, until "resume".') });
const resume = z.strictObject({ resume: name });
const restart = z.strictObject({
  restart: z.literal('legacy').describe('The backend is killed and started again: every connection is lost.'),
});
const barrier = z.strictObject({
  barrier: z.literal(true).describe('All devices: whatever was under way has arrived.'),
});

const plainSteps = { emit, drop, connect, wait, elapse, flip, request, pause, resume, restart, barrier };
const together = z.strictObject({
  together: z
    .array(z.union([emit, drop, connect, request]))
    .min(2)
    .describe('These start in the same moment.'),
});
/** By the key that names the kind of step. */
export const stepSchemas: Readonly<Record<string, z.ZodType>> = { ...plainSteps, together };

export type Emit = z.infer<typeof emit>;
export type DropStep = z.infer<typeof drop>;
export type Connect = z.infer<typeof connect>;
export type Request = z.infer<typeof request>;
export type Together = z.infer<typeof together>;
export type Step =
  | Emit
  | DropStep
  | Connect
  | Request
  | Together
  | z.infer<typeof wait>
  | z.infer<typeof elapse>
  | z.infer<typeof flip>
  | z.infer<typeof pause>
  | z.infer<typeof resume>
  | z.infer<typeof restart>
  | z.infer<typeof barrier>;

const ack = z.strictObject({
  ack: z.string().describe('The acknowledgement of this event.'),
  with: value.describe('Its one argument; { ok: true } without it.').optional(),
  args: z.array(value).describe('Instead of with: all its arguments.').optional(),
});
const refused = z.strictObject({
  refused: z.string().describe('An "error" event about this event, and then its acknowledgement.'),
  because: z.string().describe('The message.'),
  conversation: z
    .union([z.string(), z.null()])
    .describe('Which conversation the error names; $call without it, null for none.')
    .optional(),
  ack: z.literal(false).describe('No acknowledgement: none was asked for.').optional(),
});
const event = z.strictObject({
  event: z.string().describe('An event whose arguments are not exactly one.'),
  args: z.array(value),
});
const response = z.strictObject({
  response: z.string().describe('The answer to this request, such as "GET /api/me".'),
  status: z.number().int(),
  body: value.optional(),
});
const disconnected = z.strictObject({
  disconnected: z
    .string()
    .describe('The server, or the network, ended the connection; the reason as the client says it.'),
});
export const entrySchemas: Readonly<Record<string, z.ZodType>> = { refused, ack, event, response, disconnected };

export type Ack = z.infer<typeof ack>;
export type Refused = z.infer<typeof refused>;
export type EventEntry = z.infer<typeof event>;
export type ResponseEntry = z.infer<typeof response>;
export type Disconnected = z.infer<typeof disconnected>;
export interface AnyOrder {
  readonly anyOrder: readonly Expected[];
}
/** One thing that a device receives. The last form is `event: payload`. */
export type Expected =
  | Ack
  | Refused
  | EventEntry
  | ResponseEntry
  | Disconnected
  | AnyOrder
  | Readonly<Record<string, unknown>>;
/** By device: what it receives, in order. A device that is not named receives nothing. */
export type Outcome = Readonly<Record<string, readonly Expected[]>>;

export interface DeviceSpec {
  readonly name: string;
  readonly party: string;
  readonly namespace: string;
  readonly transport: Transport | undefined;
  readonly retries: number | undefined;
  readonly ackTimeout: number | undefined;
  readonly token: TokenKind;
  readonly later: boolean;
  readonly barrier: string | undefined;
}

/** What is played. A generated one has no expectation: its paths are compared with each other. */
export interface Play {
  readonly name: string;
  readonly devices: readonly DeviceSpec[];
  /** Conversation names and the parties in them. */
  readonly conversations: Readonly<Record<string, readonly string[]>>;
  readonly steps: readonly Step[];
  /** Of these events, what tells of users of other scenarios is left out. */
  readonly onlyOurs: readonly string[];
}

export interface Scenario extends Play {
  readonly about: string;
  readonly file: string;
  readonly line: number;
  /** One for a scenario with one right outcome, several for a race. */
  readonly outcomes: readonly Outcome[];
}

/** The names that a file may use, before anything is looked into. */
export const scenarioFields = {
  name: z.string().min(1).describe('How it is called in reports and by --only.'),
  about: z.string().min(1).describe('What it shows, in one sentence.'),
  parties: z.record(name, party).describe('Users and their devices. Each run gives them ids of their own.'),
  conversations: z
    .record(name, z.array(name).min(1))
    .describe('Who takes part in which. Without it "call" is that of the first two parties.')
    .optional(),
  steps: z.array(value).min(1).describe('What happens, one after another: a step is over when its effects are.'),
  expect: z.unknown().describe('What each device receives, in order.'),
  onlyOurs: z
    .array(z.string())
    .describe('Events that also tell of others: what is about users of other scenarios is left out.')
    .optional(),
  cases: z
    .array(z.record(z.string(), value))
    .min(1)
    .describe('The scenario is played once for each, with <key> replaced by its value.')
    .optional(),
};
export const scenarioSchema = z.strictObject(scenarioFields);
export type ScenarioFile = z.infer<typeof scenarioSchema>;

/** Devices with what they inherit from their party. */
export function devicesOf(parties: ScenarioFile['parties']): DeviceSpec[] {
  return Object.entries(parties).flatMap(([partyName, given]) => {
    const { devices, ...inherited } = given ?? {};
    return (devices ?? [partyName]).map((one) => {
      const own = typeof one === 'string' ? { name: one } : one;
      const all = { ...inherited, ...own };
      return {
        name: all.name,
        party: partyName,
        namespace: all.namespace ?? '/',
        transport: all.transport,
        retries: all.retries,
        ackTimeout: all.ackTimeout,
        token: all.token ?? 'valid',
        later: all.later ?? false,
        barrier: all.barrier,
      };
    });
  });
}

/** The JSON Schema for editors (draft 7), from the same definitions. */
export function editorSchema(): object {
  const entry: z.ZodType = z.lazy(() =>
    z.union([...Object.values(entrySchemas), anyOrder, z.record(z.string(), z.unknown())]),
  );
  const anyOrder = z.strictObject({ anyOrder: z.array(entry).min(2).describe('These, in any order.') });
  const outcome = z.record(z.string(), z.array(entry));
  const expect = z
    .object({ oneOf: z.array(outcome).min(2).describe('A race: each is a whole outcome.').optional() })
    .catchall(z.array(entry))
    .describe('What each device receives, in order. A device that is not named receives nothing.');
  const steps = z.array(z.union([...Object.values(stepSchemas), z.literal('barrier')])).min(1);
  const schema = z.toJSONSchema(z.strictObject({ ...scenarioFields, steps, expect }), {
    target: 'draft-07',
    io: 'input',
    reused: 'inline',
  });
  return { ...(withCaseKeys(schema) as object), title: 'sigfig parity scenario' };
}

/** Where a scenario has cases, `<key>` may stand for a word, a number or a name. */
function withCaseKeys(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(withCaseKeys);
  if (typeof schema !== 'object' || schema === null) return schema;
  const { description, ...rest } = Object.fromEntries(
    Object.entries(schema).map(([key, value]) => [key, withCaseKeys(value)]),
  );
  const narrow = ['enum', 'const', 'pattern'].some((key) => key in rest) || narrowTypes.has(rest.type);
  const wide = narrow ? { anyOf: [rest, { type: 'string', pattern: '<[\\w-]+>' }] } : rest;
  return description === undefined ? wide : { description, ...wide };
}

const narrowTypes = new Set<unknown>(['integer', 'number', 'boolean']);
