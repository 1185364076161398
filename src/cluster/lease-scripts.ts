// The scripts that leases live by: each is one atomic step by Redis's own clock, so that no two instances can see a death, its claim
// or the leader differently. Knows nothing of when they run. After docs/scale-out.md.
import type { Redis, Script } from '../redis/redis.js';

/** Milliseconds. Dead after this long without a renewal. */
export const LEASE = 3_000;
/** Where nobody at all renewed for this long, Redis was away (or all were stopped) … */
export const GAP = 2_000;
/** … and no lease expires until it has been reachable for this long. */
export const GRACE = 5_000;
/** How long it is remembered that a life was declared dead, and how long what is here stays after the last renewal by anybody. */
export const TOMBSTONE = 24 * 3_600_000;

/**
 * `leases`: life → when it expires. `info`: life → JSON. `beats`: life → number of its newest renewal, which tells whether Redis
 * still has what it had. `dead`: life → when that was declared, or when it left. `claims`: dead life → life that handles
 * its calls, empty while nobody does. `state`: `seen` (the last renewal), `grace` (until when no lease expires), `lead`, `from`.
 */
export const liveKeys = (redis: Redis): readonly string[] =>
  ['leases', 'info', 'beats', 'dead', 'claims', 'state'].map((kind) => redis.key(kind, 'live'));

const named = 'local leases, info, beats, dead, claims, state = unpack(KEYS)\nlocal me = ARGV[1]\n';
const clock = "local time = redis.call('TIME')\nlocal now = time[1] * 1000 + math.floor(time[2] / 1000)\n";

/**
 * ARGV: life, number of this renewal, number of the last confirmed one (0: none), info, 1 where that was too long ago to find a
 * tombstone, lives that lived when Redis lost them (they are found dead if they are). Answers `['dead']`, or: `ok`, Redis's time, 1 where Redis lost what it had, leader, from when it leads, leases with
 * their expiry, infos, dead lives that this one has to handle, keys that held another type and were deleted.
 */
export const renewScript: Script = {
  name: 'renew',
  lua: `${named}${clock}
local beat, confirmed = tonumber(ARGV[2]), tonumber(ARGV[3])
local broken = {}
for i, kind in ipairs({'zset', 'hash', 'hash', 'zset', 'hash', 'hash'}) do
  local found = redis.call('TYPE', KEYS[i])['ok']
  if found ~= 'none' and found ~= kind then
    redis.call('DEL', KEYS[i])
    broken[#broken + 1] = KEYS[i]
  end
end
local known = redis.call('ZSCORE', leases, me)
if redis.call('ZSCORE', dead, me) or (ARGV[5] == '1' and not known) then return {'dead'} end
local had = tonumber(redis.call('HGET', beats, me) or '') or 0
local lost = confirmed > 0 and (not known or had < confirmed)

local seen = tonumber(redis.call('HGET', state, 'seen') or '')
local grace = tonumber(redis.call('HGET', state, 'grace') or '') or 0
local begins = not seen and confirmed == 0 and redis.call('ZCARD', leases) == 0
if not begins and (lost or not seen or now - seen > ${GAP} or seen > now) then
  grace = now + ${GRACE}
  local all = redis.call('ZRANGEBYSCORE', leases, '(' .. (now + ${LEASE}), '+inf')
  for _, life in ipairs(all) do redis.call('ZADD', leases, now + ${LEASE}, life) end
elseif grace > now + ${GRACE} then
  grace = now + ${GRACE}
end
redis.call('HSET', state, 'seen', now, 'grace', grace)
redis.call('ZADD', leases, now + ${LEASE}, me)
if beat > had then redis.call('HSET', beats, me, beat) end
redis.call('HSET', info, me, ARGV[4])
for i = 6, #ARGV do
  if not redis.call('ZSCORE', dead, ARGV[i]) then redis.call('ZADD', leases, 'NX', now + ${LEASE}, ARGV[i]) end
end

if now >= grace then
  for _, life in ipairs(redis.call('ZRANGEBYSCORE', leases, '-inf', now)) do
    redis.call('ZREM', leases, life)
    redis.call('HDEL', info, life)
    redis.call('HDEL', beats, life)
    redis.call('ZADD', dead, now, life)
    redis.call('HSET', claims, life, '')
  end
end
local mine = {}
local held = redis.call('HGETALL', claims)
for i = 1, #held, 2 do
  local by = held[i + 1]
  if by ~= me and not redis.call('ZSCORE', leases, by) then
    redis.call('HSET', claims, held[i], me)
    by = me
  end
  if by == me then mine[#mine + 1] = held[i] end
end

local lead = redis.call('HGET', state, 'lead')
local from = tonumber(redis.call('HGET', state, 'from') or '') or 0
if not lead or not redis.call('ZSCORE', leases, lead) then
  from = now
  -- Redis forgot who led: whoever it was believes so until its own next renewal.
  if not lead and confirmed > 0 then from = now + ${GAP} end
  lead = me
  redis.call('HSET', state, 'lead', lead, 'from', from)
end
redis.call('ZREMRANGEBYSCORE', dead, '-inf', now - ${TOMBSTONE})
redis.call('ZREMRANGEBYRANK', dead, 0, -10001)
for i = 1, 6 do redis.call('PEXPIRE', KEYS[i], ${TOMBSTONE}) end
return {'ok', now, lost and 1 or 0, lead, from, redis.call('ZRANGE', leases, 0, -1, 'WITHSCORES'), redis.call('HGETALL', info),
  mine, broken}`,
};

/** ARGV: life, dead life, 1: its calls were handled, 0: somebody else should. Does nothing where the claim is another's. */
export const claimOverScript: Script = {
  name: 'claim-over',
  lua: `${named}
if redis.call('HGET', claims, ARGV[2]) ~= me then return 0 end
if ARGV[3] == '1' then redis.call('HDEL', claims, ARGV[2]) else redis.call('HSET', claims, ARGV[2], '') end
return 1`,
};

/** ARGV: life. Nobody will find it dead; a renewal of its that is still on its way changes nothing. */
export const leaveScript: Script = {
  name: 'leave',
  lua: `${named}${clock}
redis.call('ZREM', leases, me)
redis.call('HDEL', info, me)
redis.call('HDEL', beats, me)
redis.call('ZADD', dead, now, me)
redis.call('PEXPIRE', dead, ${TOMBSTONE})
local held = redis.call('HGETALL', claims)
for i = 1, #held, 2 do
  if held[i + 1] == me then redis.call('HSET', claims, held[i], '') end
end
if redis.call('HGET', state, 'lead') == me then redis.call('HSET', state, 'lead', '') end
return 1`,
};
