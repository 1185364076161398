// Reads what a renewal answers. Redis is a door: other instances, of other versions, wrote what is in it. Knows nothing of when.
import type { Address, InstanceId } from '../base/ids.js';
import { RedisRefused } from '../redis/redis.js';
import type { InstanceInfo } from './cluster.js';
import { addressOf, readLife } from './lives.js';

export interface Lease {
  readonly id: InstanceId;
  readonly address: Address;
  /** By Redis's clock, in milliseconds. */
  readonly expires: number;
  readonly info: InstanceInfo;
}

export interface Renewal {
  /** Redis's time, in milliseconds. */
  readonly now: number;
  readonly lost: boolean;
  readonly lead: InstanceId;
  readonly leadsFrom: number;
  readonly leases: readonly Lease[];
  /** Dead lives that this instance has to handle. */
  readonly mine: readonly InstanceId[];
  readonly broken: readonly string[];
}

/** Twice what one may tell, for those of a later version. */
const MOST_INFO = 8_192;

/** Undefined: this life was declared dead. @throws RedisRefused where it is no such answer. */
export function readRenewal(answer: unknown): Renewal | undefined {
  if (!Array.isArray(answer)) throw new RedisRefused('a renewal was answered by something else');
  const [status, now, lost, lead, from, leases, infos, mine, broken] = answer as unknown[];
  if (status === 'dead') return undefined;
  if (status !== 'ok' || typeof now !== 'number' || !Array.isArray(leases)) {
    throw new RedisRefused('a renewal was answered by something else');
  }
  const told = new Map(pairs(infos));
  return {
    now,
    lost: lost === 1,
    lead: String(lead) as InstanceId,
    leadsFrom: Number(from),
    leases: pairs(leases).flatMap(([text, score]) => {
      const id = readLife(text);
      const expires = Number(score);
      if (!id || !Number.isFinite(expires)) return [];
      return [{ id, address: addressOf(id), expires, info: readInfo(told.get(text)) }];
    }),
    mine: list(mine).flatMap((text) => readLife(text) ?? []),
    broken: list(broken).map(String),
  };
}

const list = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);

function pairs(flat: unknown): (readonly [string, string])[] {
  const all = list(flat);
  return Array.from({ length: all.length >> 1 }, (_, i) => [String(all[2 * i]), String(all[2 * i + 1])] as const);
}

function readInfo(text: string | undefined): InstanceInfo {
  if (text === undefined || text.length > MOST_INFO) return {};
  try {
    const info: unknown = JSON.parse(text);
    return typeof info === 'object' && info !== null && !Array.isArray(info) ? (info as InstanceInfo) : {};
  } catch {
    // Written by something else; that instance lives all the same.
    return {};
  }
}
