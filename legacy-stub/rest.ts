// The legacy's REST: login, conversations, messages, files, server-sent events and call tickets, as one table of routes.
// Knows nothing of Socket.IO.
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { bearer, MAX_NAME, type Tokens, tokenCookie, type User } from './auth.js';
import { type Chat, MAX_PARTICIPANTS, MAX_TEXT } from './chat.js';
import type { Files } from './files.js';
import { cors, HttpError, readJson, sendJson, sendStatic } from './http.js';
import type { Conversation } from './membership.js';
import { MAX_BATCH, type Tickets } from './tickets.js';

export interface RestParts {
  readonly tokens: Tokens;
  readonly chat: Chat;
  readonly files: Files;
  /** Absent: a legacy without ticket endpoints. */
  readonly tickets: Tickets | undefined;
  readonly corsOrigin: string | undefined;
  /** Whether login sets the `token` cookie. */
  readonly cookie: boolean;
  readonly log: (line: string) => void;
}

interface Call {
  readonly req: IncomingMessage;
  readonly res: ServerResponse;
  readonly url: URL;
  /** The value of `:id` in the route. */
  readonly id: string;
}

type Open = (call: Call) => Promise<void> | void;
type ForUser = (call: Call, user: User) => Promise<void> | void;

/** Time between two comments of a silent event stream, and what a reader may leave unread before it is cut off. */
const TICK_MS = 1_000;
const MAX_UNREAD = 1 << 20;
const PUBLIC = new URL('./public/', import.meta.url);
const CLIENT = pathToFileURL(
  join(dirname(dirname(createRequire(import.meta.url).resolve('socket.io'))), 'client-dist', '/'),
);

export function createRest(parts: RestParts): (req: IncomingMessage, res: ServerResponse) => void {
  const { tokens, chat, files, tickets } = parts;

  const forUser =
    (handle: ForUser): Open =>
    (call) => {
      const { req, url } = call;
      // EventSource and <img> can set no header: a cookie or the query will do as well.
      const user = tokens.verify(bearer(req.headers) ?? url.searchParams.get('token') ?? tokenCookie(req.headers));
      if (!user) throw new HttpError(401, 'unauthorized');
      return handle(call, user);
    };

  async function conversationFor(id: string, user: User): Promise<Conversation> {
    const conversation = await chat.conversation(id);
    if (!conversation) throw new HttpError(404, 'no such conversation');
    if (!conversation.participants.includes(user.id)) throw new HttpError(403, 'Not a participant');
    return conversation;
  }

  const routes: Record<string, Open> = {
    async 'POST /api/auth/login'({ req, res }) {
      const { username } = await readJson(req);
      const name = typeof username === 'string' ? username.trim() : '';
      if (name === '' || name.length > MAX_NAME) {
        throw new HttpError(400, `username must be a non-empty string of at most ${MAX_NAME} characters`);
      }
      const user = { id: name, name };
      const token = tokens.issue(user);
      const headers = parts.cookie ? { 'set-cookie': `token=${token}; Path=/; HttpOnly; SameSite=Lax` } : undefined;
      sendJson(res, 200, { token, user }, headers);
    },

    'GET /api/health': ({ res }) => sendJson(res, 200, { ok: true }),

    'GET /api/me': forUser(({ res }, user) => sendJson(res, 200, { user })),

    'GET /api/conversations': forUser(async ({ res }, user) => {
      const conversations = await chat.ofUser(user.id);
      sendJson(res, 200, { conversations: conversations.map(shown) });
    }),

    'POST /api/conversations': forUser(async ({ req, res }, user) => {
      const { participants } = await readJson(req);
      const listed = Array.isArray(participants) ? participants : [];
      const everybody = new Set<unknown>([...listed, user.id]);
      const valid = [...everybody].every((id) => typeof id === 'string' && id !== '' && id.length <= MAX_NAME);
      if (!valid || everybody.size < 2 || everybody.size > MAX_PARTICIPANTS) {
        throw new HttpError(400, `participants must be 2 to ${MAX_PARTICIPANTS} different names`);
      }
      sendJson(res, 201, shown(await chat.create([...everybody] as string[])));
    }),

    'GET /api/conversations/:id': forUser(async ({ res, id }, user) => {
      sendJson(res, 200, shown(await conversationFor(id, user)));
    }),

    'GET /api/conversations/:id/messages': forUser(async ({ res, id }, user) => {
      const conversation = await conversationFor(id, user);
      sendJson(res, 200, { messages: chat.messages(conversation.id) });
    }),

    'POST /api/conversations/:id/messages': forUser(async ({ req, res, id }, user) => {
      const { text } = await readJson(req);
      if (typeof text !== 'string' || text === '' || text.length > MAX_TEXT) {
        throw new HttpError(400, `text must be a non-empty string of at most ${MAX_TEXT} characters`);
      }
      sendJson(res, 201, await chat.post(await conversationFor(id, user), user, text));
    }),

    'POST /api/files': forUser(async ({ req, res }) => sendJson(res, 201, await files.save(req))),
    'GET /api/files/:id': forUser(({ req, res, id }) => files.send(req, res, id)),

    'GET /api/events': forUser(({ req, res }, user) => {
      res.writeHead(200, {
        'content-type': 'text/event-stream',
        'cache-control': 'no-store',
        'x-accel-buffering': 'no',
      });
      if (req.method === 'HEAD') {
        res.end();
        return;
      }
      const write = (text: string): void => {
        if (res.writableLength > MAX_UNREAD) res.destroy();
        else res.write(text);
      };
      write(`event: ready\ndata: ${JSON.stringify({ user })}\n\n`);
      const tick = setInterval(() => write(`: tick ${Date.now()}\n\n`), TICK_MS);
      const deaf = chat.listen((message, participants) => {
        if (participants.includes(user.id)) {
          write(`id: ${message.id}\nevent: message\ndata: ${JSON.stringify(message)}\n\n`);
        }
      });
      const stop = () => {
        clearInterval(tick);
        deaf();
      };
      res.on('close', stop);
      req.on('error', stop);
    }),
  };

  if (tickets) {
    routes['GET /api/calls/ticket'] = async ({ req, res, url }) => {
      const token = bearer(req.headers);
      if (!tokens.verify(token)) throw new HttpError(401, 'unauthorized');
      const conversationId = url.searchParams.get('conversationId');
      if (!conversationId) throw new HttpError(400, 'conversationId is missing');
      const answer = await tickets.one(token, conversationId);
      if ('status' in answer) throw new HttpError(answer.status, answer.error);
      sendJson(res, 200, answer);
    };
    // Each request brings the token of the user that it is for: the one who gathers them needs none of its own.
    routes['POST /api/calls/tickets'] = async ({ req, res }) => {
      const { requests } = await readJson(req);
      if (!Array.isArray(requests)) throw new HttpError(400, 'requests must be a list');
      if (requests.length > MAX_BATCH) throw new HttpError(400, `at most ${MAX_BATCH} requests at once`);
      sendJson(res, 200, { tickets: await tickets.many(requests) });
    };
  }

  async function answer(req: IncomingMessage, res: ServerResponse): Promise<void> {
    if (cors(req, res, parts.corsOrigin)) return;
    const { url, segments } = parse(req.url ?? '/');
    const method = req.method === 'HEAD' ? 'GET' : (req.method ?? 'GET');
    const path = `/${segments.join('/')}`;
    const route = Object.hasOwn(routes, `${method} ${path}`) ? routes[`${method} ${path}`] : undefined;
    if (route) return await route({ req, res, url, id: '' });
    const [api, kind, id, ...rest] = segments;
    if (api === 'api' && id) {
      const general = `${method} /${[api, kind, ':id', ...rest].join('/')}`;
      if (Object.hasOwn(routes, general)) return await routes[general]!({ req, res, url, id });
    }
    if (api !== 'api' && method === 'GET') {
      if (path === '/socket.io-client.js') {
        if (await sendStatic(req, res, CLIENT, 'socket.io.js')) return;
      } else if (await sendStatic(req, res, PUBLIC, path)) return;
    }
    throw new HttpError(404, 'not found');
  }

  return (req, res) => {
    answer(req, res).catch((error: unknown) => {
      if (res.headersSent || res.destroyed) {
        res.destroy();
        return;
      }
      if (!(error instanceof HttpError)) parts.log(`${req.method} failed: ${String(error)}`);
      const [status, message] = error instanceof HttpError ? [error.status, error.message] : [500, 'Internal error'];
      sendJson(res, status, { error: message });
      req.resume(); // what is left of a refused body: a client that still sends would miss the answer
    });
  };
}

/** How a conversation is shown to its members. */
function shown({ id, participants }: Conversation): object {
  return { id, participants: participants.map((participant) => ({ id: participant })) };
}

function parse(target: string): { url: URL; segments: string[] } {
  try {
    const url = new URL(target, 'http://legacy');
    return { url, segments: url.pathname.slice(1).split('/').map(decodeURIComponent) };
  } catch {
    throw new HttpError(400, 'bad request target');
  }
}
