// How addresses and lives of instances are spelled: an address is a name and something random, a life is an address and a number.
// Knows nothing of leases. What comes from Redis or another instance is checked here.
import { randomBytes } from 'node:crypto';
import type { Address, InstanceId } from '../base/ids.js';

const spelled = /^[\w.-]{1,64}-[a-z2-7]{8}$/;
const LETTERS = 'abcdefghijklmnopqrstuvwxyz234567';

/** New at each start. `name`: for operators; what a key or a log line could not carry is left out. */
export function newAddress(name: string): Address {
  const shown = name.replace(/[^\w.-]+/g, '-').slice(0, 64) || 'instance';
  const random = Array.from(randomBytes(8), (byte) => LETTERS[byte % 32]).join('');
  return `${shown}-${random}` as Address;
}

/** Undefined where it is none. */
export const readAddress = (text: unknown): Address | undefined =>
  typeof text === 'string' && spelled.test(text) ? (text as Address) : undefined;

export const lifeOf = (address: Address, life: number): InstanceId => `${address}.${life}` as InstanceId;

/** Undefined where it is none. */
export function readLife(text: unknown): InstanceId | undefined {
  if (typeof text !== 'string') return undefined;
  const dot = text.lastIndexOf('.');
  if (dot < 0 || !/^[1-9]\d{0,8}$/.test(text.slice(dot + 1))) return undefined;
  return readAddress(text.slice(0, dot)) && (text as InstanceId);
}

export const addressOf = (id: InstanceId): Address => id.slice(0, id.lastIndexOf('.')) as Address;
