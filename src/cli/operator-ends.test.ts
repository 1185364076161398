// How each command ends: exit code, and lines on stderr that say what works.
import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { type AddressInfo, createServer as createTcp } from 'node:net';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { ChangedBody, PlanBody } from '../admin/api.js';
import {
  admin,
  asked,
  changed,
  folder,
  inForce,
  plan,
  routesFile,
  run,
  tokenFile,
  useAdmin,
} from './operator.fixture.js';

useAdmin();

describe('how it ends', () => {
  const refusal = (error: string, more = {}) => ({ error, problems: [`it is ${error}`, 'do that'], ...more });
  test.each([
    ['routes list', 401, 'unauthorized', 4],
    ['routes list', 403, 'forbidden', 4],
    ['routes list', 429, 'rate-limited', 1],
    ['routes list', 500, 'internal', 1],
    ['calls show x', 404, 'not-found', 1],
  ])('%s answered by %i %s: %i', async (words, status, error, exit) => {
    const path = words === 'routes list' ? '/api/routes' : '/api/calls/x';
    admin.answers = { [`GET ${path}`]: [status, refusal(error)] };
    const { code, out, err } = await run(words);
    expect({ code, out }).toEqual({ code: exit, out: '' });
    expect(err).toMatch(new RegExp(`^sigfig: it is ${error}\nsigfig: do that\n`));
    if (status === 401) expect(err).toContain('sigfig: no token was given; name a file');
    const given = await run(`${words} --token-file ${tokenFile} --json`);
    expect(given.code).toBe(exit);
    expect(JSON.parse(given.err)).toMatchObject({ error, exit });
    if (status === 401) expect(given.err).toContain('the token that was given is not one of them');
    expect(given.err).not.toContain('a-token-of-this-test');
  });

  test('a head that is too long for the server is no other server', async () => {
    admin.answers = { 'GET /api/calls/x': [431, ''] };
    const { code, err } = await run('calls show x --json');
    expect(code).toBe(1);
    expect(JSON.parse(err)).toMatchObject({ error: 'too-large', exit: 1 });
    expect(err).not.toContain('not as sigfig');
  });

  test.each([['calls show'], ['calls end --reason x']])('%s of an empty id asks nothing', async (words) => {
    const { code, err } = await run([...words.split(' '), '']);
    expect({ code, asked }).toEqual({ code: 2, asked: [] });
    expect(err).toContain('Write its id, or how it begins; "sigfig calls list" shows it');
  });

  test.each([
    [400, 'invalid', 1],
    [409, 'conflict', 5],
    [409, 'legacy-call', 1],
    [413, 'too-large', 1],
    [415, 'media-type', 1],
    [422, 'refused', 1],
    [503, 'unwritable', 1],
    [503, 'not-known', 3],
  ])('a change answered by %i %s: %i', async (status, error, exit) => {
    admin.answers = {
      'GET /api/status': [200, inForce],
      'POST /api/routes/set': [status, refusal(error, error === 'conflict' ? { current: 9 } : {})],
    };
    const { code, out, err } = await run('routes set calls new --reason x');
    expect({ code, out }).toEqual({ code: exit, out: '' });
    expect(err).toMatch(new RegExp(`^sigfig: it is ${error}\nsigfig: do that\n`));
    if (error !== 'conflict') return;
    expect(err.match(/\n/g)).toHaveLength(2);
    expect((await run('routes set calls new --reason x --if-version 7')).err).toMatch(
      /with what is in force now it is --if-version 9\n$/,
    );
    const asJson = await run('routes set calls new --reason x --json');
    expect(JSON.parse(asJson.err)).toMatchObject({ error: 'conflict', current: 9, exit: 5 });
  });

  test('diff is like diff(1)', async () => {
    admin.answers = { 'POST /api/routes/diff': [200, plan] };
    expect(await run(`routes diff ${routesFile}`)).toMatchObject({ code: 1, err: '' });
    admin.answers = { 'POST /api/routes/diff': [200, { ...plan, differences: [], lines: [] }] };
    expect(await run(`routes diff ${routesFile}`)).toMatchObject({
      code: 0,
      out: `${routesFile} says what is in force, version 7\n`,
    });
    const names = { ...plan, differences: [], namespaces: { named: ['/typo'], dropped: [] }, lines: ['adds /typo'] };
    admin.answers = { 'POST /api/routes/diff': [200, names] };
    expect(await run(`routes diff ${routesFile}`)).toMatchObject({
      code: 1,
      out: `${routesFile} is not version 7, which is in force; applied, it\nadds /typo\n`,
    });
    admin.answers = { 'GET /api/status': [200, inForce], 'POST /api/routes/apply': [200, names] };
    expect((await run(`routes apply ${routesFile} --dry-run`)).out).toBe(
      'dry run, from version 7; nothing was changed\nadds /typo\n',
    );
    admin.answers = { 'POST /api/routes/diff': [422, refusal('refused')] };
    expect((await run(`routes diff ${routesFile}`)).code).toBe(2);
    const { code, err } = await run(`routes diff ${join(folder, 'none.yaml')}`);
    expect(code).toBe(2);
    expect(err).toMatch(/^sigfig: can't read \S+none\.yaml \(ENOENT\); name a routes file, or - for standard input\n$/);
  });

  test('nothing to do, and done only in part, are said', async () => {
    admin.answers = { 'GET /api/status': [200, inForce], 'POST /api/routes/set': [200, changed({ changed: false })] };
    expect(await run('routes set calls new --reason x')).toEqual({
      code: 0,
      out: 'nothing to do: version 8 is like that already\n',
      err: '',
    });
    admin.answers = { 'POST /api/routes/legacy': [200, changed({ changed: false, endedCalls: 12 })] };
    expect((await run('routes legacy --all --end-calls')).out).toBe(
      'routes stay: version 8 is like that already\nended 12 calls\n',
    );
    const part = changed({ confirmed: { instances: 1, of: 3 }, unwritten: 'ENOSPC', endedCalls: 2 });
    admin.answers = { 'POST /api/routes/legacy': [200, part] };
    const { code, out, err } = await run('routes legacy --all --end-calls');
    expect(code).toBe(0);
    expect(out).toContain('is in force on 1 of 3 instances\n');
    expect(out).toContain('ended 2 calls\n');
    expect(err).toBe(
      'sigfig: in force on the instance that was asked only: ENOSPC; the other 2 go on as before until it can be, so make the change on each of them ("--admin URL")\n',
    );
    const warned = async (more: Partial<ChangedBody>): Promise<string> => {
      admin.answers = { 'POST /api/routes/legacy': [200, changed(more)] };
      return (await run('routes legacy --all')).err;
    };
    expect(await warned({ confirmed: { instances: 1, of: 3 } })).toBe(
      'sigfig: confirmed by 1 of 3 instances only; "sigfig status" shows who answers\n',
    );
    expect(await warned({ unwritten: 'ENOSPC' })).toBe(
      'sigfig: in force, but in memory only: ENOSPC; it is written once the log is well again\n',
    );
    admin.answers = { 'POST /api/routes/legacy': [200, part] };
    const asJson = await run('routes legacy --all --json');
    expect(asJson.err).toBe('');
    expect(JSON.parse(asJson.out)).toEqual(part);
  });

  test.each([
    [0, ['nothing moves'], 'nothing to do: version 7 is like that already\n'],
    [12, ['ends 12 live calls'], 'routes stay: version 7 is like that already\nends 12 live calls\n'],
    [1, [], 'routes stay: version 7 is like that already\nends 1 call\n'],
  ])('a dry run that moves no route and ends %i calls says so', async (endedCalls, lines, says) => {
    const like: PlanBody = { ...plan, differences: [], events: [], lines, endedCalls };
    for (const path of ['legacy', 'rollback']) {
      admin.answers = { [`POST /api/routes/${path}`]: [200, like] };
      const words = path === 'legacy' ? 'legacy --all' : 'rollback 6';
      const { code, out } = await run(`routes ${words} --end-calls --dry-run`);
      expect(code).toBe(0);
      expect(out).toBe(endedCalls === 0 ? says : `dry run, from version 7; nothing was changed\n${says}`);
      expect(asked.at(-1)?.body).toMatchObject({ endCalls: true, dryRun: true });
    }
  });

  test('an answer that lacks something, as of another version', async () => {
    admin.answers = { 'GET /api/status': [200, inForce] };
    const { code, out, err } = await run('status');
    expect({ code, out }).toEqual({ code: 3, out: '' });
    expect(err).toMatch(
      /^sigfig: the answer lacks something \([^\n]*use the sigfig command of the server's version[^\n]*\n$/,
    );
    expect(await run('status --json')).toMatchObject({ code: 0, err: '' });
  });

  test.each([
    ['another server', [404, '<html>'], '(404), but not as sigfig'],
    ['another API', [200, { hello: 1 }], '(200), but not as sigfig'],
    ['a redirect, which is not followed', [302, ''], '(302), but not as sigfig'],
    ['no JSON', [200, 'null'], '(200), but not as sigfig'],
    ['a closed connection', (response: ServerResponse) => response.destroy(), 'without an answer'],
    [
      'a cut answer',
      (response: ServerResponse) => {
        response.writeHead(200, { 'content-length': '100' });
        response.write('{');
        response.socket?.end();
      },
      'without an answer',
    ],
  ] as const)('%s: 3', async (_name, given, line) => {
    admin.answers = { 'GET /api/routes': given };
    const { code, out, err } = await run('routes list');
    expect({ code, out }).toEqual({ code: 3, out: '' });
    expect(err).toMatch(/^sigfig: [^\n]+\n$/);
    expect(err).toContain(line);
  });

  test('a change that was sent and not answered may have been made', async () => {
    admin.answers = { 'POST /api/routes/legacy': (response) => response.destroy() };
    const { code, err } = await run('routes legacy --all');
    expect(code).toBe(3);
    expect(err).toContain('whether the change was made is not known; "sigfig routes history" shows it\n');
  });

  test('what does not speak HTTP, or not at all: 3', async () => {
    const other = createTcp((socket) =>
      socket
        .on('error', () => undefined)
        .resume()
        .end('220 mail ready\r\n'),
    );
    other.listen(0, '127.0.0.1');
    await once(other, 'listening');
    const at = `127.0.0.1:${(other.address() as AddressInfo).port}`;
    const spoken = await run(`status --admin ${at}`);
    expect(spoken).toMatchObject({ code: 3, err: expect.stringContaining('it does not speak HTTP') });
    const tls = await run(`status --admin https://${at}`);
    expect(tls).toMatchObject({ code: 3, err: expect.stringContaining('it does not speak TLS; write http://') });
    other.close();
    await once(other, 'close');
    const { code, err } = await run(`routes set calls new --reason x --admin ${at}`);
    expect(code).toBe(3);
    expect(err).toBe(
      `sigfig: can't reach http://${at}: nothing listens there; give the admin address of a running sigfig by ` +
        '--admin URL or SIGFIG_ADMIN\n',
    );
  });

  test.each([
    [
      'routes set calls',
      /^sigfig: missing required argument 'mode'; .*such as: sigfig routes set call-lifecycle canary /,
    ],
    [
      'routes set calls canary --percent 101',
      /^sigfig: option '--percent <n>' argument '101' is invalid\. Write 0 to 100/,
    ],
    [
      'routes lsit',
      /^sigfig: unknown command 'lsit' \(Did you mean list\?\); "sigfig routes --help" lists the commands\n$/,
    ],
    ['routes legacy', /^sigfig: required option '--all' not specified; .*such as: sigfig routes legacy --all\n$/],
    ['routes rollback x', /^sigfig: .*"sigfig routes history" lists them/],
    ['routes history --limit 201', /^sigfig: .*Write a number from 1 to 200/],
    ['routes list --admin nowhere', /^sigfig: --admin: "nowhere" is no address of the admin API; write /],
    ['calls end', /^sigfig: missing required argument 'id'/],
    ['completion tcsh', /^sigfig: .*bash, zsh, fish; write: source <\(sigfig completion bash\)\n$/],
  ])('%s: 2, one line, and nothing is asked', async (words, line) => {
    const { code, out, err } = await run(words);
    expect({ code, out }).toEqual({ code: 2, out: '' });
    expect(err).toMatch(line);
    expect(err.match(/\n/g)).toHaveLength(1);
    expect(asked).toEqual([]);
  });
});
