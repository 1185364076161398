import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createClient, problemsOf, Refused } from './client.js';

let server: Server;
let answer: (request: IncomingMessage, response: ServerResponse) => void;
let asked: IncomingMessage[];
let told: (string | null)[];
const client = (token: string | null, actor: string | null) => {
  const { port } = server.address() as AddressInfo;
  return createClient(
    () => ({ token, actor }),
    (refused) => told.push(refused),
    `http://127.0.0.1:${port}/`,
  );
};

beforeEach(async () => {
  asked = [];
  told = [];
  answer = (_, response) => response.end('{}');
  server = createServer((request, response) => {
    asked.push(request);
    request.resume();
    answer(request, response);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
});
afterEach(() => {
  server.closeAllConnections();
  server.close();
});

const json = (status: number, body: unknown) => (_: IncomingMessage, response: ServerResponse) =>
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
const refusal = async (promise: Promise<unknown>): Promise<Refused> => {
  const error = await promise.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  if (!(error instanceof Refused)) throw new Error('not refused');
  return error;
};

describe('who asks', () => {
  it('says the name of the operator with changes only, so that one which is refused keeps no figure away', async () => {
    await client(null, 'alice').get('api/live');
    await client(null, 'alice').post('api/routes/legacy', {});
    await client('a token', 'alice').post('api/routes/legacy', {});
    expect(asked.map(({ headers }) => headers['x-sigfig-actor'])).toEqual([undefined, 'alice', undefined]);
    expect(asked.map(({ headers }) => headers.authorization)).toEqual([undefined, undefined, 'Bearer a token']);
    expect(asked.every(({ headers }) => headers['x-sigfig-client'] === 'dashboard')).toBe(true);
  });
});

describe('an answer that is a refusal', () => {
  it("of the API says what is wrong in the API's own lines", async () => {
    answer = json(409, { error: 'conflict', problems: ['version 8 is in force', 'look at it'], current: 8 });
    const refused = await refusal(client(null, null).post('api/routes/set', {}));
    expect(refused).toMatchObject({ status: 409, code: 'conflict', current: 8, ours: true });
    expect(problemsOf(refused, true)).toEqual(['version 8 is in force', 'look at it']);
  });

  it.each([
    ['a page of a proxy', (_: IncomingMessage, response: ServerResponse) => response.writeHead(502).end('<html>')],
    ['other JSON', json(502, { message: 'no upstream' })],
    ['no object', json(502, 'no')],
  ])('of somebody between us and the API is not taken for its own: %s', async (_, given) => {
    answer = given;
    const refused = await refusal(client(null, null).get('api/live'));
    expect(refused).toMatchObject({ status: 502, ours: false, problems: ['The admin listener answered 502.'] });
  });

  it('asks for a token, and tells which one was refused', async () => {
    answer = json(401, { error: 'unauthorized', problems: ['a token is needed here'] });
    await refusal(client(null, null).get('api/live'));
    await refusal(client('an-old-token', null).get('api/live'));
    expect(told).toEqual([null, 'an-old-token']);
  });
});

describe('no answer', () => {
  it('leaves open whether a change was made, and says so of nothing else', async () => {
    answer = (request) => request.socket.destroy();
    const error = await client(null, null)
      .post('api/routes/legacy', {})
      .catch((reason: unknown) => reason);
    expect(problemsOf(error)).toEqual(['The admin listener could not be reached.']);
    expect(problemsOf(error, true)[0]).toMatch(
      /could not be reached.*Whether the change was made shows in the history/,
    );
  });
});
