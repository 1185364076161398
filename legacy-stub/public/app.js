// The demo page: log in, chat, call. An ordinary Socket.IO client that knows one server and nothing of what may stand in
// between: it is the same page before, during and after a migration.
import { Call } from './call.js';
import { createEventLog } from './eventlog.js';
import { colourOf } from './media.js';
import { probe } from './probe.js';

const $ = (id) => document.getElementById(id);
const query = new URLSearchParams(location.search);
const mostMessages = 200;
const calm = document.title;

let session = read('session');
let socket = null;
let call = null;
let open = null;
const people = new Map();

$('login-form').addEventListener('submit', async (event) => {
  event.preventDefault();
  $('login-error').textContent = '';
  const username = $('name').value.trim();
  try {
    const answer = await fetch('/api/auth/login', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ username }),
    });
    if (!answer.ok) throw new Error(`The server said ${answer.status}`);
    const { token, user } = await answer.json();
    session = { token, me: user?.id ?? username };
    write('session', session);
    enter();
  } catch (error) {
    $('login-error').textContent = `Could not log in: ${error.message}`;
  }
});

function enter() {
  const { token, me } = session;
  const transport = query.get('transport');
  socket = globalThis.io({ auth: { token }, ...(transport ? { transports: [transport] } : {}) });
  call = new Call(socket, me, createEventLog($('events')));
  call.addEventListener('change', drawCall);
  $('me').textContent = me;
  for (const name of read(`people:${me}`) ?? []) person(name);
  listen();
  meet();
  setInterval(meet, 4000);
  show('desk');
  drawPeople();
  const last = call.peer ?? read(`open:${me}`);
  if (last) openPerson(last);
  drawCall();
  $(last ? 'text' : 'open-name').focus();
}

function listen() {
  socket.on('connect', () => {
    for (const someone of people.values()) join(someone);
    drawLink();
    socket.io.engine.on('upgrade', drawLink);
  });
  socket.on('disconnect', drawLink);
  socket.on('connect_error', (error) => {
    drawLink();
    if (!socket.active) leave(`You were logged out: ${error.message}`);
  });
  socket.on('chat-message', (message) => {
    const other = otherOf(message.conversationId);
    if (other) note(person(other), message);
  });
  socket.on('typing', ({ conversationId, from, typing }) => {
    const other = otherOf(conversationId);
    if (from !== other) return;
    const someone = person(other);
    someone.typing = typing !== false;
    clearTimeout(someone.timer);
    someone.timer = setTimeout(() => {
      someone.typing = false;
      drawTyping();
    }, 3000);
    drawTyping();
  });
}

function leave(reason = '') {
  call?.end();
  socket?.disconnect();
  sessionStorage.removeItem('session');
  if (reason) write('farewell', reason);
  location.reload();
}

// Contacts and messages.

function idOf(name) {
  return `dm:${[session.me, name].sort().join(':')}`;
}

/** The other name of a `dm:` conversation, or undefined where it is none of ours. */
function otherOf(conversationId) {
  const [scheme, ...names] = conversationId.split(':');
  const [other] = names.filter((name) => name !== session.me);
  return scheme === 'dm' && names.length === 2 && names.includes(session.me) ? other : undefined;
}

function person(name) {
  let someone = people.get(name);
  if (!someone) {
    someone = { name, messages: [], read: 0, typing: false, timer: 0 };
    people.set(name, someone);
    write(`people:${session.me}`, [...people.keys()]);
    if (socket?.connected) join(someone);
    drawPeople();
  }
  return someone;
}

/** Joins a conversation and fetches what was said in it so far. */
async function join(someone) {
  const conversationId = idOf(someone.name);
  socket.emit('join-conversation', { conversationId });
  const answer = await rest(`/api/conversations/${encodeURIComponent(conversationId)}/messages`);
  for (const message of answer?.messages ?? []) note(someone, message);
}

/** Conversations that somebody else began. */
async function meet() {
  const answer = await rest('/api/conversations');
  for (const { id } of answer?.conversations ?? []) {
    const other = otherOf(id);
    if (other) person(other);
  }
}

async function rest(path) {
  try {
    const answer = await fetch(path, { headers: { authorization: `Bearer ${session.token}` } });
    if (answer.status === 401) leave('You were logged out');
    return answer.ok ? await answer.json() : null;
  } catch (error) {
    // The server is away; Socket.IO's reconnect brings us back here.
    console.info(error.message);
    return null;
  }
}

function openPerson(name) {
  open = person(name);
  write(`open:${session.me}`, name);
  drawPeople();
  drawMessages();
  drawCall();
}

function note(someone, message) {
  if (someone.messages.some(({ id }) => id === message.id)) return;
  someone.messages = [...someone.messages, message].sort((a, b) => a.time - b.time).slice(-mostMessages);
  if (message.from === someone.name) someone.typing = false;
  if (!open) openPerson(someone.name);
  else if (someone === open) drawMessages();
  drawPeople();
}

$('open-form').addEventListener('submit', (event) => {
  event.preventDefault();
  const name = $('open-name').value.trim();
  if (!name || name === session.me) return;
  $('open-name').value = '';
  openPerson(name);
  $('text').focus();
});

$('chat-form').addEventListener('submit', async (event) => {
  event.preventDefault();
  const text = $('text').value.trim();
  if (!text || !open) return;
  $('text').value = '';
  const someone = open;
  const conversationId = idOf(someone.name);
  let reply;
  try {
    reply = await socket.timeout(10_000).emitWithAck('chat-message', { conversationId, text });
  } catch (error) {
    reply = { ok: false, error: error.message };
  }
  const { id = `unsent-${Date.now()}`, time = Date.now(), error } = reply;
  note(someone, { id, conversationId, text, from: session.me, time, failed: error });
});

let toldTyping = 0;
$('text').addEventListener('input', () => {
  if (!open || Date.now() - toldTyping < 1500) return;
  toldTyping = Date.now();
  socket.emit('typing', { conversationId: idOf(open.name) });
});

// The call.

$('call').addEventListener('click', () => open && call.start(idOf(open.name), open.name));
$('hangup').addEventListener('click', () => call.end());
$('mute').addEventListener('click', () => call.toggle('audio'));
$('camera').addEventListener('click', () => call.toggle('video'));
$('share').addEventListener('click', () => call.toggleScreen());
$('accept').addEventListener('click', () => {
  openPerson(call.peer);
  call.accept();
});
$('decline').addEventListener('click', () => call.end());
$('ringing').addEventListener('cancel', (event) => {
  event.preventDefault();
  call.end();
});
$('sound').addEventListener('click', () => {
  $('far').muted = false;
  $('far').play();
  $('sound').hidden = true;
});
$('logout').addEventListener('click', () => leave());

const phases = { calling: 'Calling…', connected: '', away: 'Waiting for the other side…', rejoining: 'Coming back…' };

function drawCall() {
  const { phase, peer, far } = call;
  if (peer) person(peer);
  const live = phase !== 'idle' && phase !== 'ringing';
  $('call').disabled = !open || phase !== 'idle';
  $('stage').hidden = !live;
  $('stage').dataset.phase = phase;
  const linked = call.link?.isConnected ?? false;
  $('phase').textContent = phase === 'connected' && !linked ? 'Connecting…' : (phases[phase] ?? '');
  showStream($('far'), [far.camera, far.audio]);
  const near = call.near?.getTracks() ?? [];
  showStream($('near'), near);
  // A camera is shown as in a mirror; a drawn picture has letters in it.
  $('near').classList.toggle('mirrored', !near.some((track) => track.stopDrawing));
  // The screen that is shown large: theirs, or what we share ourselves.
  const screen = far.screen ?? call.screen?.getVideoTracks()[0];
  showStream($('screen'), [screen]);
  $('stage').dataset.screen = screen ? 'yes' : 'no';
  $('far-name').textContent = peer ?? '';
  $('screen-name').textContent = far.screen ? `${peer}'s screen` : 'Your screen';
  press('mute', call.isOff('audio'));
  press('camera', call.isOff('video'));
  press('share', Boolean(call.screen));
  $('share').textContent = call.screen ? 'Stop sharing' : 'Share screen';
  $('share').disabled = phase !== 'connected';
  $('banner').hidden = !call.note || phase === 'ringing';
  $('banner').textContent = call.note;
  $('banner').dataset.kind = phase === 'away' || phase === 'rejoining' ? 'warn' : 'info';
  ring(phase === 'ringing' ? peer : null);
}

function ring(peer) {
  const dialog = $('ringing');
  document.title = peer ? `☎ ${peer} is calling` : calm;
  if (!peer) {
    if (dialog.open) dialog.close();
    return;
  }
  $('ringing-title').textContent = `${peer} is calling`;
  paintAvatar($('ringing-avatar'), peer);
  if (!dialog.open) dialog.showModal();
}

function press(id, on) {
  $(id).setAttribute('aria-pressed', String(on));
}

function showStream(video, tracks) {
  const wanted = tracks.filter(Boolean);
  const shown = video.srcObject?.getTracks() ?? [];
  if (wanted.length === shown.length && wanted.every((track) => shown.includes(track))) return;
  video.srcObject = wanted.length > 0 ? new MediaStream(wanted) : null;
  if (!video.srcObject) return;
  video.play().catch((error) => {
    if (error.name !== 'NotAllowedError' || video.muted) return;
    // A reloaded page may not make a sound before the user has touched it.
    video.muted = true;
    video.play();
    $('sound').hidden = false;
  });
}

// Drawing.

function show(id) {
  $('login').hidden = id !== 'login';
  $('desk').hidden = id !== 'desk';
  $('who').hidden = id !== 'desk';
}

function drawLink() {
  const on = socket.connected;
  $('link').dataset.state = on ? 'on' : 'off';
  $('link').textContent = on ? socket.io.engine.transport.name : 'offline';
}

function drawPeople() {
  const items = [...people.values()].map((someone) => {
    const button = document.createElement('button');
    button.type = 'button';
    button.className = 'person';
    if (someone === open) button.setAttribute('aria-current', 'true');
    const avatar = document.createElement('span');
    avatar.className = 'avatar';
    avatar.setAttribute('aria-hidden', 'true');
    paintAvatar(avatar, someone.name);
    const name = document.createElement('span');
    name.textContent = someone.name;
    button.append(avatar, name);
    const fromThem = someone.messages.filter(({ from }) => from === someone.name).length;
    if (someone === open) someone.read = fromThem;
    if (fromThem > someone.read) {
      const unread = document.createElement('span');
      unread.className = 'unread';
      unread.textContent = fromThem - someone.read;
      unread.setAttribute('aria-label', `${fromThem - someone.read} unread`);
      button.append(unread);
    }
    button.addEventListener('click', () => openPerson(someone.name));
    const item = document.createElement('li');
    item.append(button);
    return item;
  });
  $('contacts').replaceChildren(...items);
}

function paintAvatar(element, name) {
  element.textContent = (name[0] ?? '?').toUpperCase();
  element.style.background = colourOf(name, 40);
}

function drawMessages() {
  $('peer').textContent = open.name;
  $('text').disabled = false;
  $('send').disabled = false;
  const items = open.messages.map((message) => {
    const item = document.createElement('li');
    item.className = message.from === session.me ? 'mine' : 'theirs';
    const text = document.createElement('p');
    text.textContent = message.text;
    const time = document.createElement('time');
    const when = new Date(message.time);
    time.textContent = Number.isNaN(when.getTime())
      ? ''
      : when.toLocaleTimeString([], { hour: '2-digit', minute: '2-digit' });
    item.append(text, time);
    if (message.failed) {
      item.classList.add('failed');
      time.textContent = `Not sent: ${message.failed}`;
    }
    return item;
  });
  $('messages').replaceChildren(...items);
  $('messages').scrollTop = $('messages').scrollHeight;
  drawTyping();
}

function drawTyping() {
  $('typing').textContent = open?.typing ? `${open.name} is typing…` : '';
}

function read(key) {
  const text = sessionStorage.getItem(key);
  return text ? JSON.parse(text) : null;
}

function write(key, value) {
  sessionStorage.setItem(key, JSON.stringify(value));
}

window.demo = probe(() => ({ session, socket, call }));

if (session) enter();
else {
  show('login');
  $('login-error').textContent = read('farewell') ?? '';
  sessionStorage.removeItem('farewell');
  $('name').focus();
}
