// The scripts that presence is written with, each for the keys of one user or of one instance. Knows nothing of when.
import type { Script } from '../redis/redis.js';

/** Milliseconds: everything is written again several times within it (`presence-writer.ts`). */
export const TTL = 3_600_000;

/**
 * KEYS: a user's hash. ARGV: life, its address, Redis's time until which this counts, 1: nothing else of that address stays, how many
 * fields are set, these, fields that are removed. Answers 0 where it comes too late.
 */
export const writePresenceScript: Script = {
  name: 'presence',
  lua: `local key, life, own = KEYS[1], ARGV[1], ARGV[2] .. '.'
local time = redis.call('TIME')
if time[1] * 1000 + math.floor(time[2] / 1000) > tonumber(ARGV[3]) then return 0 end
local last = 5 + tonumber(ARGV[5])
if ARGV[4] == '1' then
  local keep = {}
  for i = 6, last do keep[ARGV[i]] = true end
  local all = redis.call('HGETALL', key)
  for i = 1, #all, 2 do
    if not keep[all[i]] and string.sub(all[i + 1], 1, #own) == own then redis.call('HDEL', key, all[i]) end
  end
end
for i = 6, last do redis.call('HSET', key, ARGV[i], life) end
for i = last + 1, #ARGV do redis.call('HDEL', key, ARGV[i]) end
redis.call('PEXPIRE', key, ${TTL})
return 1`,
};

/** KEYS: a life's set of users. ARGV: how many are added, these, those that are removed. */
export const indexScript: Script = {
  name: 'presence-index',
  lua: `local last = 1 + tonumber(ARGV[1])
for i = 2, last do redis.call('SADD', KEYS[1], ARGV[i]) end
for i = last + 1, #ARGV do redis.call('SREM', KEYS[1], ARGV[i]) end
redis.call('PEXPIRE', KEYS[1], ${24 * TTL})
return 1`,
};

/** KEYS: a user's hash. ARGV: a life that is over. */
export const clearPresenceScript: Script = {
  name: 'presence-clear',
  lua: `local all = redis.call('HGETALL', KEYS[1])
local left = #all / 2
for i = 1, #all, 2 do
  if all[i + 1] == ARGV[1] then
    redis.call('HDEL', KEYS[1], all[i])
    left = left - 1
  end
end
return left`,
};
