// Who the operator is, kept for this tab only. Knows nothing of how it is asked for or sent.
import type { Credentials } from './client.js';

const TOKEN = 'sigfig.token';
const ACTOR = 'sigfig.actor';
/** Where the browser forbids storage, for as long as the page lives. */
const instead = new Map<string, string>();

export function credentials(): Credentials {
  return { token: read(TOKEN), actor: read(ACTOR) };
}

export function keepToken(token: string | null): void {
  write(TOKEN, token);
}

/** Only what a header can carry: the API takes 1 to 64 printable characters. */
export function keepActor(name: string): void {
  const sendable = name.replace(/[^\x20-\x7e]/g, '').trim();
  write(ACTOR, sendable.slice(0, 64).trim() || null);
}

function read(key: string): string | null {
  try {
    return sessionStorage.getItem(key);
  } catch {
    return instead.get(key) ?? null; // storage is forbidden
  }
}

function write(key: string, value: string | null): void {
  try {
    if (value === null) sessionStorage.removeItem(key);
    else sessionStorage.setItem(key, value);
  } catch {
    // storage is forbidden
    if (value === null) instead.delete(key);
    else instead.set(key, value);
  }
}
