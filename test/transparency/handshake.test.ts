// Who is let in, who is refused and in which words, with which cookies and cross-origin headers: as without the proxy.
import { ask, bytes, Polling, upgradeRequest, Ws } from './clients.js';
import { same } from './same.js';

same('refused upgrades', 8, {}, async (place, note) => {
  const tries = [
    '/socket.io/?EIO=4&transport=websocket&sid=nope',
    '/socket.io/?EIO=4&transport=polling',
    '/socket.io/?EIO=4&transport=nope',
    '/socket.io/?EIO=4',
    '/socket.io/?EIO=3&transport=websocket',
    '/socket.io/?transport=websocket',
    '/socket.io/?EIO=4&transport=websocket&sid=',
    '/socket.io/?EIO=4&transport=webtransport',
    '/socket.io/?EIO=4&transport=constructor',
  ];
  for (const path of tries) {
    const ws = await Ws.open(place.url, { path });
    const end = path.endsWith('sid=') ? await ws.next() : (await ws.rest()).join(' | ');
    note(path, ws.headers, end);
    ws.socket.terminate();
  }
});

same('upgrades that are no proper WebSocket', 3, {}, async (place, note) => {
  const path = '/socket.io/?EIO=4&transport=websocket';
  const good = upgradeRequest(path);
  for (const [what, request] of [
    ['a version that nobody speaks', good.replace('Version: 13', 'Version: 7')],
    ['no key', good.replace(/Sec-WebSocket-Key.*\r\n/, '')],
    ['a short key', good.replace('dGhlIHNhbXBsZSBub25jZQ==', 'short')],
    ['POST', good.replace('GET', 'POST')],
  ] as const) {
    const { text, error } = await bytes(place.url, request);
    note(what, text.split('\r\n')[0]!, text.slice(text.indexOf('\r\n\r\n') + 4), error);
  }
});

same('tokens that the legacy refuses', 8, {}, async (place, note) => {
  const forged = `${place.token('ada').slice(0, -3)}abc`;
  for (const auth of [
    '',
    '{}',
    '{"token":""}',
    '{"token":5}',
    '{"token":"nonsense"}',
    `{"token":"${forged}"}`,
    '[]',
    '"x"',
  ]) {
    const ws = await Ws.open(place.url);
    await ws.next();
    ws.send(`40${auth}`);
    const answer = await ws.next();
    note(`40${auth}`, answer);
    if (answer.startsWith('44')) {
      ws.send(`40{"token":"${place.token('ada')}"}`);
      note('then the right one', await ws.next());
    }
    ws.socket.terminate();
  }
});

same('a token in the query and in a cookie', 2, {}, async (place, note) => {
  const token = place.token('ada');
  for (const asked of [{ query: `&token=${token}` }, { headers: { cookie: `a=b; token=${token}` } }]) {
    const ws = await Ws.open(place.url, asked);
    await ws.next();
    ws.send('40');
    note('connected', await ws.next());
    ws.send('421["whoami"]');
    note('as', await ws.next());
    ws.socket.terminate();
  }
});

for (const corsOrigin of [undefined, 'https://app.example', '*']) {
  same(
    `cross-origin, the legacy allows ${corsOrigin ?? 'nobody'}`,
    8,
    corsOrigin ? { corsOrigin } : {},
    async (place, note) => {
      for (const origin of ['https://app.example', 'https://evil.example', 'null']) {
        const preflight = {
          origin,
          'access-control-request-method': 'POST',
          'access-control-request-headers': 'content-type,authorization',
        };
        for (const path of ['/socket.io/?EIO=4&transport=polling', '/api/me']) {
          const before = await ask(place.url, path, { method: 'OPTIONS', headers: preflight });
          note(`preflight of ${path} from ${origin}`, before.status, before.headers, before.text);
        }
        const polling = await Polling.open(place.url, '', { origin, cookie: 'a=1' });
        note('handshake', polling.handshake.status, polling.handshake.headers);
        const posted = await polling.post(`40{"token":"${place.token('ada')}"}`, { origin });
        note('POST', posted.status, posted.headers);
        const got = await polling.get({ origin });
        note(
          'GET',
          got.status,
          got.headers.filter((h) => !h.startsWith('content-length')),
        );
        const me = await ask(place.url, '/api/me', {
          headers: { origin, authorization: `Bearer ${place.token('ada')}` },
        });
        note('REST', me.status, me.headers, me.text);
        const ws = await Ws.open(place.url, { headers: { origin } });
        note('WebSocket', ws.headers);
        ws.socket.terminate();
      }
    },
  );
}

same('cookies', 6, { cookie: true }, async (place, note) => {
  const polling = await Polling.open(place.url);
  const cookies = polling.handshake.headers.filter((h) => h.startsWith('set-cookie'));
  note('handshake', cookies);
  const cookie = `io=${polling.sid}; other=1`;
  const posted = await polling.post(`40{"token":"${place.token('ada')}"}`, { cookie });
  note('POST', posted.status, posted.headers);
  const got = await polling.get({ cookie });
  note(
    'GET',
    got.status,
    got.headers.filter((h) => !h.startsWith('content-length')),
  );
  const login = await ask(place.url, '/api/auth/login', {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: '{"username":"ada"}',
  });
  note(
    'login',
    login.status,
    login.headers.filter((h) => !h.startsWith('content-length')),
  );
  const token = /token=([^;]+)/.exec(login.headers.find((h) => h.startsWith('set-cookie')) ?? '')?.[1];
  const me = await ask(place.url, '/api/me', { headers: { cookie: `token=${token}` } });
  note('me', me.status, me.text);
  const ws = await Ws.open(place.url, { headers: { cookie: `token=${token}` } });
  note('WebSocket', ws.headers);
  await ws.next();
  ws.send('40');
  note('connected', await ws.next());
  ws.send('421["whoami"]');
  note('as', await ws.next());
  ws.socket.terminate();
});
