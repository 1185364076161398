// What Redis does in one step for the log of route versions: a stream whose ids are the versions' numbers. Knows only the stream;
// each entry is a mark (SHA-1 of its text, so that the same again is known) and the version as JSON.
import type { Script } from '../redis/redis.js';

const LAST = `
local function last()
  local newest = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)[1]
  return newest and tonumber(string.match(newest[1], '^%d+')) or 0
end
local function at(number)
  return redis.call('XRANGE', KEYS[1], number .. '-0', number .. '-0')[1]
end
`;

/**
 * Arguments: the highest number that the writer knows of, seconds to live, how many entries are kept, then number, mark and text
 * of each version. Answers `[1]` where they are written, or were by this very text before; `[0]` where others have appended.
 */
export const appendScript: Script = {
  name: 'routes-append',
  lua: `${LAST}
if last() ~= tonumber(ARGV[1]) then
  for i = 4, #ARGV, 3 do
    local there = at(ARGV[i])
    if not there or there[2][2] ~= ARGV[i + 1] then return {0} end
  end
  return {1}
end
for i = 4, #ARGV, 3 do
  redis.call('XADD', KEYS[1], ARGV[i] .. '-0', 'mark', ARGV[i + 1], 'version', ARGV[i + 2])
end
redis.call('XTRIM', KEYS[1], 'MAXLEN', ARGV[3])
redis.call('EXPIRE', KEYS[1], ARGV[2])
return {1}`,
};

/**
 * Arguments: the highest number that the reader knows of and its mark, how many at most, bytes at most, seconds to live (0: as it
 * is). Answers `['more', last, number, mark, text, …]`, oldest first, at least one where there is one; or `['replaced']` where the
 * stream does not hold what the reader knows.
 */
export const newerScript: Script = {
  name: 'routes-newer',
  lua: `${LAST}
if ARGV[5] ~= '0' then redis.call('EXPIRE', KEYS[1], ARGV[5]) end
local known = tonumber(ARGV[1])
local newest = last()
if known > 0 then
  local there = newest >= known and at(ARGV[1])
  if not there or there[2][2] ~= ARGV[2] then return {'replaced'} end
end
local found, bytes = {'more', newest}, 0
if newest == known then return found end
for _, entry in ipairs(redis.call('XRANGE', KEYS[1], string.format('%.0f-0', known + 1), '+', 'COUNT', ARGV[3])) do
  bytes = bytes + #(entry[2][4] or '')
  if bytes > tonumber(ARGV[4]) and #found > 2 then break end
  found[#found + 1] = string.match(entry[1], '^%d+')
  found[#found + 1] = entry[2][2] or ''
  found[#found + 1] = entry[2][4] or ''
end
return found`,
};

/**
 * Arguments: the number below which to look, how many at most, bytes at most. Answers `[number, mark, text, …]`, newest first, at
 * least one where there is one.
 */
export const olderScript: Script = {
  name: 'routes-older',
  lua: `
local found, bytes, most = {}, 0, tonumber(ARGV[2])
local from = string.format('%.0f-0', tonumber(ARGV[1]) - 1)
while #found < most * 3 do
  local page = redis.call('XREVRANGE', KEYS[1], from, '-', 'COUNT', 16)
  for _, entry in ipairs(page) do
    local number = string.match(entry[1], '^%d+')
    bytes = bytes + #(entry[2][4] or '')
    if #found >= most * 3 or (bytes > tonumber(ARGV[3]) and #found > 0) then return found end
    found[#found + 1] = number
    found[#found + 1] = entry[2][2] or ''
    found[#found + 1] = entry[2][4] or ''
    from = string.format('%.0f-0', tonumber(number) - 1)
  end
  if #page < 16 or from == '0-0' then return found end
end
return found`,
};

/** No arguments. Deletes what is no stream in the step that finds it; answers the type that was there, `none` or `stream` included. */
export const clearScript: Script = {
  name: 'routes-clear',
  lua: `
local found = redis.call('TYPE', KEYS[1]).ok
if found ~= 'stream' and found ~= 'none' then redis.call('DEL', KEYS[1]) end
return found`,
};
