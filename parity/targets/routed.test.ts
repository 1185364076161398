import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { routedProxy } from './routed.js';

/** An admin API with a table, and nothing else. */
let server: Server;
let url = '';
let applied: string[] = [];
let refuse: { status: number; body: object } | undefined;

beforeEach(async () => {
  applied = [];
  refuse = undefined;
  server = createServer((request, response) => {
    let text = '';
    request.on('data', (chunk: Buffer) => {
      text += chunk.toString();
    });
    request.on('end', () => {
      const answer = (status: number, body: object) => {
        response.writeHead(status, { 'content-type': 'application/json', 'retry-after': '0' });
        response.end(JSON.stringify(body));
      };
      const refusal = refuse;
      if (request.method === 'GET') return answer(200, { version: 7, yaml: 'as before' });
      if (refusal) {
        if (refusal.status === 429) refuse = undefined;
        return answer(refusal.status, refusal.body);
      }
      const { yaml, dryRun } = JSON.parse(text) as { yaml: string; dryRun?: boolean };
      if (!dryRun) applied.push(yaml);
      return answer(200, {});
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterEach(() => new Promise((resolve) => server.close(resolve)));

/** A play that is over when the test says so. */
function slow() {
  let end!: () => void;
  const over = new Promise<void>((resolve) => (end = resolve));
  let begun!: () => void;
  const began = new Promise<void>((resolve) => (begun = resolve));
  const play = () => {
    begun();
    return over;
  };
  return { play, end, began };
}

describe('plays on one proxy', () => {
  it('share a table, and the next table waits until they are over', async () => {
    const routed = await routedProxy(url, undefined);
    const [one, two, other] = [slow(), slow(), slow()];
    const all = [
      routed.play('legacy', false, one.play),
      routed.play('new', false, other.play),
      routed.play('legacy', false, two.play),
    ];
    await Promise.all([one.began, two.began]);
    expect(applied).toEqual(['legacy']);
    one.end();
    two.end();
    await other.began;
    expect(applied).toEqual(['legacy', 'new']);
    other.end();
    await Promise.all(all);
    await routed.close();
    expect(applied).toEqual(['legacy', 'new', 'as before']);
  });

  it('that flip have the proxy for themselves', async () => {
    const routed = await routedProxy(url, undefined);
    const flips = slow();
    const flipping = routed.play('legacy', true, async (set) => {
      await set('new');
      await flips.play();
    });
    await flips.began;
    const next = slow();
    const after = routed.play('new', false, next.play);
    const last = slow();
    const alone = routed.play('new', true, last.play);
    flips.end();
    await flipping;
    await next.began;
    next.end();
    await after;
    await last.began;
    last.end();
    await alone;
    expect(applied).toEqual(['legacy', 'new']);
  });

  it('wait where changes come too often, and one that can’t be made fails its play alone', async () => {
    const routed = await routedProxy(url, undefined);
    refuse = { status: 429, body: { problems: ['too many requests'] } };
    await routed.play('new', false, async () => undefined);
    expect(applied).toEqual(['new']);
    refuse = { status: 422, body: { problems: ['that splits a call'] } };
    await expect(routed.play('split', false, async () => undefined)).rejects.toThrow('422: that splits a call');
    refuse = undefined;
    await routed.play('new', false, async () => undefined);
    expect(applied).toEqual(['new', 'new']);
  });

  it('do not begin without a token that may change routes', async () => {
    refuse = { status: 403, body: { problems: ['needs operate'] } };
    await expect(routedProxy(url, 'a token')).rejects.toThrow(
      'wants a token that may operate; give --admin-token-file',
    );
    await expect(routedProxy('http://127.0.0.1:1', undefined)).rejects.toThrow("can't be reached");
  });
});
