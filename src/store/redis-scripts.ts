// What Redis does with a call in one step: compare, write, and say what is in force. Each script's keys belong to one conversation, or to
// one index. Knows nothing of what a session holds: its text is written and answered as it came.
//
// A session is a hash: `f` format, `c` call id, `v` version, `d` the session as JSON, `n` its bytes, `o` its last operations, at most 8 of each process (an
// operation starts with 8 characters of its process; others may have made many while one waits for a reply), `s` the mark of `d`: after a
// failover two changes can have one version, and differ in it. `h` held seats (`o`, `a`),
// `i` the instances in whose index it stands, `w` set once it stood in the index of those who are awaited.
// What a script denies for want of memory must come first in it, so that nothing is done by halves.
import type { Script } from '../redis/redis.js';

const has = `
local function has(lines, one)
  return lines and string.find('\\n' .. lines .. '\\n', '\\n' .. one .. '\\n', 1, true) ~= nil
end
local function whole(key)
  return tonumber(redis.call('HGET', key, 'n') or -1) == redis.call('HSTRLEN', key, 'd')
end
local function inforce(key, word)
  local x = redis.call('HMGET', key, 'f', 'd')
  return {word, x[1] or '', x[2] or ''}
end
local function gone(ended, void, call)
  local over = has(redis.call('GET', ended), call) or redis.call('SISMEMBER', void, 'discarded') == 1
  return {over and 'over' or 'gone'}
end
local function given(key, op, answer)
  if redis.call('LINDEX', key, 0) == op then
    for _, item in ipairs(redis.call('LRANGE', key, 1, -1)) do answer[#answer + 1] = item end
  end
  return answer
end
`;

/** Keys: session, ended, claim, void. Answers `done`, `ended` (made, and over since), `there` + session, `claimed` + by whom, `void`. */
export const create: Script = {
  name: 'create',
  lua: `${has}
local op, call, version, data, mark, format, held, instance, waits, ttl, me = unpack(ARGV, 1, 11)
if redis.call('SISMEMBER', KEYS[4], op) == 1 then return {'void'} end
if redis.call('EXISTS', KEYS[1]) == 1 then
  local ops = redis.call('HGET', KEYS[1], 'o')
  return inforce(KEYS[1], has(ops, op) and 'done' or 'there')
end
local over = redis.call('GET', KEYS[2])
if over and has(over, op) then return {'ended'} end
local dead = {}
for i = 12, #ARGV do dead[ARGV[i]] = true end
local others = {}
for _, by in ipairs(redis.call('HKEYS', KEYS[3])) do
  if by ~= me and not dead[by] then others[#others + 1] = by end
end
if #others > 0 then return {'claimed', unpack(others, 1, math.min(#others, 1000))} end
redis.call('HSET', KEYS[1], 'f', format, 'c', call, 'v', version, 'd', data, 's', mark, 'n', #data, 'o', op, 'h', held, 'i', instance, 'w', waits)
redis.call('PEXPIRE', KEYS[1], ttl)
for by in pairs(dead) do redis.call('HDEL', KEYS[3], by) end
return {'done'}
`,
};

/**
 * Keys: session, ended, void, kept for the offerer, kept for the answerer, given. Answers `done`, then a session where a repeat of the
 * same operation finds a later one, then what was kept (`o` or `a` before each); `ended`, `there` + session, `gone`, `over` (gone, and rightly so),
 * `void`, `broken`.
 */
export const replace: Script = {
  name: 'replace',
  lua: `${has}
local op, call, before, was, after, data, mark, format, held, instance, waits, ttl, released = unpack(ARGV, 1, 13)
if redis.call('SISMEMBER', KEYS[3], op) == 1 then return {'void'} end
local x = redis.call('HMGET', KEYS[1], 'c', 'v', 'o', 'f', 'i', 's')
if not x[1] then
  if redis.call('EXISTS', KEYS[1]) == 1 then return {'there', '', ''} end
  if has(redis.call('GET', KEYS[2]), op) then return {'ended'} end
  return gone(KEYS[2], KEYS[3], call)
end
if has(x[3], op) then return given(KEYS[6], op, inforce(KEYS[1], 'done')) end
if x[1] ~= call or x[2] ~= before or x[4] ~= format or (x[6] and x[6] ~= was) then return inforce(KEYS[1], 'there') end
if not whole(KEYS[1]) then return {'broken'} end
local ops = op
local count = {[string.sub(op, 1, 8)] = 1, all = 1}
for one in string.gmatch(x[3] or '', '[^\\n]+') do
  local by = string.sub(one, 1, 8)
  count[by] = (count[by] or 0) + 1
  count.all = count.all + 1
  if count[by] <= 8 and count.all <= 64 then ops = ops .. '\\n' .. one end
end
local instances = x[5] or ''
if instance ~= '' and not has(instances, instance) then
  instances = instances == '' and instance or instances .. '\\n' .. instance
end
redis.call('HSET', KEYS[1], 'v', after, 'd', data, 's', mark, 'n', #data, 'o', ops, 'h', held, 'i', instances)
if waits == '1' then redis.call('HSET', KEYS[1], 'w', '1') end
redis.call('PEXPIRE', KEYS[1], ttl)
local answer = {'done', '', ''}
if released ~= '' then
  redis.call('DEL', KEYS[6])
  for role in string.gmatch(released, '.') do
    local kept = role == 'o' and KEYS[4] or KEYS[5]
    for _, item in ipairs(redis.call('LRANGE', kept, 0, -1)) do answer[#answer + 1] = role .. item end
    redis.call('DEL', kept)
  end
  if #answer > 3 then
    redis.call('RPUSH', KEYS[6], op)
    for i = 4, #answer do redis.call('RPUSH', KEYS[6], answer[i]) end
    redis.call('PEXPIRE', KEYS[6], 600000)
  end
end
return answer
`,
};

/** Keys as of `replace`. Answers `done` + the instances in whose index it stood + whether it was awaited, `there` + session, `gone`, `over`, `void`, `broken`. */
export const remove: Script = {
  name: 'delete',
  lua: `${has}
local op, call, before, was, format, ttl = unpack(ARGV, 1, 6)
if redis.call('SISMEMBER', KEYS[3], op) == 1 then return {'void'} end
local x = redis.call('HMGET', KEYS[1], 'c', 'v', 'o', 'f', 'i', 'w', 's')
if not x[1] then
  if redis.call('EXISTS', KEYS[1]) == 1 then return {'there', '', ''} end
  if has(redis.call('GET', KEYS[2]), op) then return {'done', '', ''} end
  return gone(KEYS[2], KEYS[3], call)
end
if x[1] ~= call or x[2] ~= before or x[4] ~= format or (x[7] and x[7] ~= was) then return inforce(KEYS[1], 'there') end
if not whole(KEYS[1]) then return {'broken'} end
redis.call('DEL', KEYS[1], KEYS[4], KEYS[5], KEYS[6])
-- A full Redis does not keep calls from ending: then only nobody knows later that it did.
redis.pcall('SET', KEYS[2], call .. '\\n' .. op .. '\\n' .. (x[3] or ''), 'PX', ttl)
return {'done', x[5] or '', x[6] or ''}
`,
};

/** Keys: session, ended, void, given. Whether the operation was executed: 1, then what it gave; otherwise it never will be: 0. */
export const settle: Script = {
  name: 'settle',
  lua: `${has}
if has(redis.call('HGET', KEYS[1], 'o'), ARGV[1]) or has(redis.call('GET', KEYS[2]), ARGV[1]) then return given(KEYS[4], ARGV[1], {1}) end
redis.call('SADD', KEYS[3], ARGV[1])
redis.call('PEXPIRE', KEYS[3], ARGV[2])
return {0}
`,
};

/**
 * Keys: session, ended, void. Writes a session again where it is absent or older; `done`: it is in force. `there`: another is. `over`: it has
 * ended, or was discarded.
 */
export const restore: Script = {
  name: 'restore',
  lua: `${has}
local call, version, data, mark, format, held, instance, waits, ttl = unpack(ARGV, 1, 9)
local x = redis.call('HMGET', KEYS[1], 'c', 'v', 'i', 'f')
if x[1] and (x[1] ~= call or x[4] ~= format or tonumber(x[2]) > tonumber(version)) then return 'there' end
-- Two changes of one version, one of them from before a failover: the stored one counts.
if x[2] == version and redis.call('HGET', KEYS[1], 'd') ~= data then return 'there' end
if gone(KEYS[2], KEYS[3], call)[1] == 'over' then return 'over' end
local instances = x[3] or ''
if instance ~= '' and not has(instances, instance) then
  instances = instances == '' and instance or instances .. '\\n' .. instance
end
if x[2] ~= version then
  redis.call('HSET', KEYS[1], 'f', format, 'c', call, 'v', version, 'd', data, 's', mark, 'n', #data, 'h', held, 'w', waits)
end
redis.call('HSET', KEYS[1], 'i', instances)
redis.call('PEXPIRE', KEYS[1], ttl)
return 'done'
`,
};

/** Keys: session, ended, claim. Answers format and session, what has ended, and who claims. */
export const look: Script = {
  name: 'look',
  lua: `
local x = redis.call('HMGET', KEYS[1], 'f', 'd')
local there = redis.call('EXISTS', KEYS[1])
local by = redis.call('HKEYS', KEYS[3])
return {there, x[1] or '', x[2] or '', redis.call('GET', KEYS[2]) or '', unpack(by, 1, math.min(#by, 1000))}
`,
};

/** Keys: session, claim, void. Answers `claimed`, `there` + session, or `void`. */
export const claim: Script = {
  name: 'claim',
  lua: `${has}
if redis.call('SISMEMBER', KEYS[3], ARGV[1] .. ' ' .. ARGV[2]) == 1 then return {'void'} end
if redis.call('EXISTS', KEYS[1]) == 1 then return inforce(KEYS[1], 'there') end
redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
redis.call('PEXPIRE', KEYS[2], ARGV[3])
return {'claimed'}
`,
};

/** Keys: claim, void. With a time, that claim is called off as well, should the network still bring it. */
export const release: Script = {
  name: 'release',
  lua: `
if redis.call('HGET', KEYS[1], ARGV[1]) == ARGV[2] then redis.call('HDEL', KEYS[1], ARGV[1]) end
if ARGV[3] ~= '' then
  redis.call('SADD', KEYS[2], ARGV[1] .. ' ' .. ARGV[2])
  redis.call('PEXPIRE', KEYS[2], ARGV[3])
end
return 1
`,
};

/**
 * Keys: session, kept for that role, given. Answers `kept`, or `there` + session, or `gone`. A repeat finds its message where it is
 * by now. Over 256 messages, or 1 MiB of them, the oldest go.
 */
export const keep: Script = {
  name: 'keep',
  lua: `${has}
local op, call, role, item, ttl, again = unpack(ARGV, 1, 6)
if again == '1' then
  local mark = op .. '\\n'
  for _, key in ipairs({KEYS[2], KEYS[3]}) do
    for _, one in ipairs(redis.call('LRANGE', key, 0, -1)) do
      local from = key == KEYS[3] and 2 or 1
      if string.sub(one, from, from + #mark - 1) == mark then return {'kept'} end
    end
  end
end
local x = redis.call('HMGET', KEYS[1], 'c', 'h')
if not x[1] then
  if redis.call('EXISTS', KEYS[1]) == 1 then return {'there', '', ''} end
  return {'gone'}
end
if x[1] ~= call or not x[2] or not string.find(x[2], role, 1, true) then return inforce(KEYS[1], 'there') end
redis.call('RPUSH', KEYS[2], op .. '\\n' .. item)
redis.call('PEXPIRE', KEYS[2], ttl)
redis.call('LTRIM', KEYS[2], -256, -1)
local total = 0
for _, one in ipairs(redis.call('LRANGE', KEYS[2], 0, -1)) do total = total + #one end
while total > 1048576 and redis.call('LLEN', KEYS[2]) > 1 do total = total - #redis.call('LPOP', KEYS[2]) end
return {'kept'}
`,
};

/** Keys: void, and all others of a conversation. Whoever knew the session does not write it again. */
export const discard: Script = {
  name: 'discard',
  lua: `
redis.call('DEL', unpack(KEYS))
redis.call('SADD', KEYS[1], 'discarded')
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return 1
`,
};

/** Keys: an index that is a set. */
export const link: Script = {
  name: 'link',
  lua: `
redis.call('SADD', KEYS[1], ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1
`,
};

/**
 * Keys: a part of the index by time. Brings a call's time forward. An overdue one is set to now: whoever reads the index must see that
 * somebody is about to change this call (\`later\`).
 */
export const sooner: Script = {
  name: 'sooner',
  lua: `
local seen = tonumber(redis.call('ZSCORE', KEYS[1], ARGV[1]) or 'inf')
local at = tonumber(ARGV[2])
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
if at > seen then at = seen < now and math.min(at, now) or seen end
redis.call('ZADD', KEYS[1], string.format('%.0f', at), ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return 1
`,
};

/**
 * Keys: a part of the index by time. Puts off, or removes, what was read as not due: only where its time has been over for 5 s, so that
 * no change of that call is on its way.
 */
export const later: Script = {
  name: 'later',
  lua: `
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
for i = 1, #ARGV, 3 do
  local score = redis.call('ZSCORE', KEYS[1], ARGV[i])
  if score and score == ARGV[i + 1] and tonumber(score) <= now - 5000 then
    if ARGV[i + 2] == '' then redis.call('ZREM', KEYS[1], ARGV[i])
    else redis.call('ZADD', KEYS[1], 'XX', ARGV[i + 2], ARGV[i]) end
  end
end
return 1
`,
};
