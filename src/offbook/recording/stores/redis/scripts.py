"""The Lua scripts that read and write a recording in Redis, each of them atomic.

A recording with the prefix `p` has these keys. `m` is the kind of exchanges: models, or `t` for tools.

- `{p}:meta`: a hash with the format version, the metadata, the last id, whether anything expires, and the generation.
  That is a name which the keys of exchanges and their indexes have after `{p}:`; it is empty until the recording is
  edited. An edit writes a new generation, and lets the recording have it in one step.
- `{p}:m:x:<id>`: one exchange, `0` or `1` (it is in a list even if it is alone) and its JSON. It expires on its own.
- `{p}:m:all`: the ids in order, as `<id> <length of the key> <key><fingerprint>`
- `{p}:m:k:<key>`: the ids of a key
- `{p}:m:f:<fingerprint>`: the same for one fingerprint, which may be empty
- `{p}:m:exp`: the same for those that expire, by the time in ms
- `{p}:lock`: the token of the process that edits the recording, `{p}:lease:<call>` of the one that makes a call
- `{p}:old`: the generations that are being written, and those that are to be removed
- `{p}:pos:<session>` and `{p}:log:<session>`: how far a session is: a hash of the ids that it
  was served, with its epoch, and the changes to that

Ids begin with the server's time in µs, so that they grow even if the last one was evicted. An index lives as long as
its youngest exchange. It may have ids of exchanges that have expired, or were evicted: those are skipped, and removed
when somebody writes to the index.
"""

from __future__ import annotations

from hashlib import sha1

import orjson

from offbook.recording.format.document import FORMAT_VERSION, new_meta

LOCKED = "OFFBOOK_LOCKED"


class LuaScript:
    """A Lua script. `digest` is the server's name for it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.digest = sha1(text.encode(), usedforsecurity=False).hexdigest()


BASE = "local base = string.sub(KEYS[1], 1, -5)\n"
"""The beginning of the names of all keys."""

_DATA = BASE + "local root = base .. (redis.call('HGET', KEYS[1], 'at') or '')\n"

_UNLOCKED = f"""
local holder = redis.call('GET', base .. 'lock')
if holder and holder ~= ARGV[1] then return redis.error_reply('{LOCKED}') end
"""

_LIVES = """
local function lives(name, ttl, existed)
  if ttl == 0 then
    if existed then redis.call('PERSIST', name) end
  elseif not existed then
    redis.call('PEXPIRE', name, ttl)
  else
    local left = redis.call('PTTL', name)
    if left >= 0 and left < ttl then redis.call('PEXPIRE', name, ttl) end
  end
end
"""

_NOW = """
local now = redis.call('TIME')
local ms = now[1] * 1000 + math.floor(now[2] / 1000)
"""

_CREATION = f"""
local version, creator = '{FORMAT_VERSION}', [==[{orjson.dumps(new_meta()["created_by"]).decode()}]==]
"""

_FIELDS_AND_SIZES = """
local function size(kind)
  local name = root .. kind
  return redis.call('ZCARD', name .. ':all') - redis.call('ZCOUNT', name .. ':exp', '-inf', ms)
end
return {redis.call('HGETALL', KEYS[1]), size('m'), size('t')}
"""

OPEN = LuaScript(
    _DATA
    + _CREATION
    + _UNLOCKED
    + _LIVES
    + _NOW
    + """
local existed = redis.call('EXISTS', KEYS[1]) == 1
redis.call('HSETNX', KEYS[1], 'version', version)
if not existed then
  redis.call('HSET', KEYS[1], 'meta:created_by', creator)
  lives(KEYS[1], tonumber(ARGV[2]), false)
end
"""
    + _FIELDS_AND_SIZES
)
"""Create the recording if it does not exist, and return its fields and sizes.

ARGV: lock token, ttl in ms of a new one.
"""

DESCRIBE = LuaScript(_DATA + _NOW + _FIELDS_AND_SIZES)
"""Return the fields and sizes of a recording; no fields if it does not exist."""

SET_FIELDS = LuaScript(
    BASE
    + _UNLOCKED
    + _LIVES
    + """
local existed = redis.call('EXISTS', KEYS[1]) == 1
for at = 3, #ARGV, 2 do redis.call('HSET', KEYS[1], ARGV[at], ARGV[at + 1]) end
if not existed then lives(KEYS[1], tonumber(ARGV[2]), false) end
"""
)
"""Set fields of the metadata. ARGV: lock token, ttl in ms of a new recording, names and values."""

APPEND = LuaScript(
    BASE
    + _CREATION
    + _UNLOCKED
    + _LIVES
    + """
local kind, key, fingerprint, value, ttl = ARGV[2], ARGV[3], ARGV[4], ARGV[5], tonumber(ARGV[6])
local found = redis.call('HMGET', KEYS[1], 'last', 'version', 'expires', 'at')
local name = base .. (found[4] or '') .. kind
local expires = ttl > 0 or found[3]
local ms, number
if expires or not found[1] then
  local now = redis.call('TIME')
  ms, number = now[1] * 1000 + math.floor(now[2] / 1000), now[1] * 1000000 + now[2]
end
if found[1] then number = found[1] + 1 end
local id = string.format('%.0f', number)
redis.call('HSET', KEYS[1], 'last', id)
if not found[2] then
  redis.call('HSET', KEYS[1], 'version', version, 'meta:created_by', creator)
elseif found[2] ~= version and redis.call('EXISTS', base .. (found[4] or '') .. 'm:f:') == 0 then
  redis.call('HSET', KEYS[1], 'version', version)
end
if ttl > 0 and not found[3] then redis.call('HSET', KEYS[1], 'expires', '1') end
if expires then lives(KEYS[1], ttl, found[2] and true) end

local function add(index, member)
  if not expires then
    redis.call('ZADD', index, id, member)
    return
  end
  local oldest = redis.call('ZRANGE', index, 0, 1)
  for _, old in ipairs(oldest) do
    if redis.call('EXISTS', name .. ':x:' .. string.match(old, '^%d+')) == 0 then redis.call('ZREM', index, old) end
  end
  redis.call('ZADD', index, id, member)
  lives(index, ttl, #oldest > 0 and redis.call('ZCARD', index) > 1)
end
local member = id .. ' ' .. #key .. ' ' .. key .. fingerprint
add(name .. ':k:' .. key, id)
add(name .. ':f:' .. fingerprint, member)
redis.call('ZADD', name .. ':all', id, member)
if expires then
  local expiring = name .. ':exp'
  lives(name .. ':all', ttl, redis.call('ZCARD', name .. ':all') > 1)
  if ttl > 0 then
    redis.call('ZADD', expiring, ms + ttl, member)
    lives(expiring, ttl, redis.call('ZCARD', expiring) > 1)
  end
  for _, dead in ipairs(redis.call('ZRANGEBYSCORE', expiring, '-inf', ms, 'LIMIT', 0, 10)) do
    local old, length, rest = string.match(dead, '^(%d+) (%d+) (.*)$')
    redis.call('ZREM', name .. ':k:' .. string.sub(rest, 1, length), old)
    redis.call('ZREM', name .. ':f:' .. string.sub(rest, length + 1), dead)
    redis.call('ZREM', name .. ':all', dead)
    redis.call('ZREM', expiring, dead)
  end
end
if ttl > 0 then
  redis.call('SET', name .. ':x:' .. id, value, 'PX', ttl)
else
  redis.call('SET', name .. ':x:' .. id, value)
end
if ARGV[7] and redis.call('GET', base .. 'lease:' .. ARGV[7]) == ARGV[8] then
  redis.call('DEL', base .. 'lease:' .. ARGV[7])
end
return id
"""
)
"""Append an exchange, and release the lease of its call. The exchange itself is written last: until then, no reader
sees it.

ARGV: lock token, kind, key, fingerprint, value, ttl in ms and, with a lease, its call and its token.
"""

READ = LuaScript(
    _DATA
    + """
local name, ids = root .. ARGV[1], nil
if ARGV[3] == '-1' then
  ids = redis.call('ZRANGE', name .. ':k:' .. ARGV[2], 0, ARGV[4] - 1)
else
  ids = redis.call('ZRANGEBYSCORE', name .. ':k:' .. ARGV[2], '(' .. ARGV[3], '+inf', 'LIMIT', 0, ARGV[4])
end
if #ids == 1 and ARGV[5] == '0' then
  local value = redis.call('GET', name .. ':x:' .. ids[1])
  if value then return '0  ' .. ids[1] .. '\\n' .. value end
end
local result, last, gone, head = {''}, nil, 0, {'0', #ids == tonumber(ARGV[4]) and ids[#ids] or ''}
for _, id in ipairs(ids) do
  local value = redis.call('GET', name .. ':x:' .. id)
  if value then
    last = id
    head[#head + 1] = id
    result[#result + 1] = value
  else
    gone = gone + 1
    head[1] = gone
  end
end
result[1] = table.concat(head, ' ')
if not last or ARGV[5] == '0' then return result end
local bytes = 0
for _, member in ipairs(redis.call('ZRANGEBYSCORE', name .. ':all', '(' .. last, '+inf', 'LIMIT', 0, ARGV[5])) do
  local id, length, rest = string.match(member, '^(%d+) (%d+) (.*)$')
  local value = bytes < 1000000 and redis.call('GET', name .. ':x:' .. id)
  if value then
    bytes = bytes + #value
    result[#result + 1] = redis.call('ZCARD', name .. ':k:' .. string.sub(rest, 1, length)) .. ' ' .. member
    result[#result + 1] = value
  end
end
return result
"""
)
"""Return exchanges of a key, and some later ones of the recording.

ARGV: kind, key, the id after which to start (-1 is the beginning), the number, and the number of later ones. Returns
one flat list, which clients parse quicker than nested ones. Its first text has the number of missing exchanges, the id
to continue after (empty at the end), and the ids of existing ones; then come their values; and of the later ones, the
size of the key before the member, and the value. A key with one exchange, as most are, is one text instead, with the
value on the lines after the first.
"""

FIND = LuaScript(
    _DATA
    + """
local name, found, gone = root .. ARGV[1], {}, 0
local members = redis.call('ZRANGEBYSCORE', name .. ':f:' .. ARGV[2], '(' .. ARGV[3], '+inf', 'LIMIT', 0, ARGV[4])
for _, member in ipairs(members) do
  if redis.call('EXISTS', name .. ':x:' .. string.match(member, '^%d+')) == 1 then
    found[#found + 1] = member
  else
    gone = gone + 1
  end
end
return {gone, #members == tonumber(ARGV[4]) and string.match(members[#members], '^%d+') or '', found}
"""
)
"""Return the places of exchanges with a fingerprint: the number of missing ones, the id to continue after (empty at the
end), and members. ARGV: kind, fingerprint, the id after which to start, the number.
"""

LAST = LuaScript(
    _DATA
    + """
local name, from = root .. ARGV[1], '+inf'
while true do
  local members = redis.call('ZREVRANGEBYSCORE', name .. ':' .. ARGV[2], from, '-inf', 'LIMIT', 0, 50)
  if #members == 0 then return {} end
  for _, member in ipairs(members) do
    local id = string.match(member, '^%d+')
    local value = redis.call('GET', name .. ':x:' .. id)
    if value then return {member, value} end
    from = '(' .. id
  end
end
"""
)
"""Return the last exchange of an index, as member and value, or nothing. ARGV: kind, index."""

PAGE = LuaScript(
    _DATA
    + """
local name = root .. ARGV[1]
local rows = {}
local members = redis.call('ZRANGEBYSCORE', name .. ':all', '(' .. ARGV[2], '+inf', 'LIMIT', 0, ARGV[3])
for _, member in ipairs(members) do
  local id, length, rest = string.match(member, '^(%d+) (%d+) (.*)$')
  local key = string.sub(rest, 1, length)
  local value = redis.call('GET', name .. ':x:' .. id)
  if value then
    rows[#rows + 1] = member
    rows[#rows + 1] = value
    rows[#rows + 1] = redis.call('ZCARD', name .. ':k:' .. key)
    rows[#rows + 1] = redis.call('PTTL', name .. ':x:' .. id)
  end
end
return {rows, #members == tonumber(ARGV[3]) and string.match(members[#members], '^%d+') or ''}
"""
)
"""Return exchanges in the order of the recording: members, values, sizes of their keys and remaining lifetimes in ms
(-1 is for ever); and the id to continue after, empty at the end. ARGV: kind, the id after which to start, the number.
"""

_DRAIN = """
local left = 0
for _, kind in ipairs({'m', 't'}) do
  local name = root .. kind
  local members = redis.call('ZRANGE', name .. ':all', 0, 249)
  for _, member in ipairs(members) do
    local id, length, rest = string.match(member, '^(%d+) (%d+) (.*)$')
    local key, fingerprint = string.sub(rest, 1, length), string.sub(rest, length + 1)
    redis.call('UNLINK', name .. ':x:' .. id, name .. ':k:' .. key, name .. ':f:' .. fingerprint)
  end
  if #members > 0 then redis.call('ZREMRANGEBYRANK', name .. ':all', 0, #members - 1) end
  left = left + #members
end
if left == 0 then redis.call('UNLINK', root .. 'm:exp', root .. 't:exp') end
"""

REMOVE = LuaScript(_DATA + _DRAIN + "if left == 0 then redis.call('DEL', KEYS[1]) end\nreturn left")
"""Remove some exchanges of the recording, and return their number. Without any left, remove the recording."""

DRAIN = LuaScript(
    BASE
    + """
if ARGV[1] == (redis.call('HGET', KEYS[1], 'at') or '') then
  redis.call('SREM', base .. 'old', ARGV[1])
  return 0
end
local root = base .. ARGV[1]
"""
    + _DRAIN
    + """
if left == 0 then
  if ARGV[1] ~= '' then redis.call('DEL', root .. 'meta') end
  redis.call('SREM', base .. 'old', ARGV[1])
end
return left
"""
)
"""Remove some exchanges of a generation, unless it is the recording's, and return their number.

ARGV: the generation.
"""

STAGE = LuaScript(
    BASE
    + _UNLOCKED
    + """
local old = redis.call('SMEMBERS', base .. 'old')
redis.call('SADD', base .. 'old', ARGV[2])
return old
"""
)
"""Note a generation that will be written, and return those that others have left behind.

ARGV: lock token, the generation.
"""

SWAP = LuaScript(
    BASE
    + _UNLOCKED
    + """
local stage, old = base .. ARGV[2] .. 'meta', redis.call('HGET', KEYS[1], 'at') or ''
if redis.call('EXISTS', stage) == 0 then return redis.error_reply('what was written has been evicted') end
redis.call('SADD', base .. 'old', old)
redis.call('HSET', stage, 'at', ARGV[2])
redis.call('RENAME', stage, KEYS[1])
redis.call('SREM', base .. 'old', ARGV[2])
return old
"""
)
"""Give the recording another generation, and return its former one.

ARGV: lock token, the new generation.
"""

CREATE = LuaScript(
    _CREATION
    + """
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
redis.call('HSET', KEYS[1], 'version', version)
return 1
"""
)
"""Create an empty recording, and return 1; 0 if it exists."""

ACQUIRE = LuaScript(BASE + "return redis.call('SET', base .. ARGV[1], ARGV[2], 'NX', 'PX', ARGV[3]) and 1 or 0")
"""Take a lock or a lease, and return 1, or 0 if it is taken. ARGV: its name, our token, ms after which it is lost."""

RENEW = LuaScript(
    BASE
    + """
for at = 3, #ARGV do
  local name = base .. ARGV[at]
  if redis.call('GET', name) == ARGV[1] then redis.call('PEXPIRE', name, ARGV[2]) end
end
"""
)
"""Renew our locks and leases. ARGV: our token, ms, names."""

RELEASE = LuaScript(
    BASE
    + """
local name = base .. ARGV[1]
if redis.call('GET', name) == ARGV[2] then redis.call('DEL', name) end
"""
)
"""Return a lock or a lease, if it is still ours. ARGV: its name, our token."""

CHANGES_BATCH = 1000

_POSITION = """
local used, log = base .. 'pos:' .. ARGV[1], base .. 'log:' .. ARGV[1]
"""

CLAIM = LuaScript(
    BASE
    + _POSITION
    + f"""
local epoch, read = redis.call('HGET', used, 'epoch'), tonumber(ARGV[4])
if not epoch then
  epoch = ARGV[5]
  redis.call('DEL', log)
  redis.call('HSET', used, 'epoch', epoch)
end
local is_current = epoch == ARGV[3] or ARGV[3] == ''
if not is_current then read = 0 end
local changes = redis.call('LRANGE', log, read, read + {CHANGES_BATCH} - 1)
if #changes == {CHANGES_BATCH} then is_current = false end
for _, change in ipairs(changes) do
  if string.sub(change, 1, 1) == '-' then is_current = false end
end
local claimed = ''
for at = 6, is_current and #ARGV or 0 do
  if redis.call('HSETNX', used, ARGV[at], 1) == 1 then
    claimed = ARGV[at]
    redis.call('RPUSH', log, claimed)
    changes[#changes + 1] = claimed
    break
  end
end
redis.call('PEXPIRE', used, ARGV[2])
redis.call('PEXPIRE', log, ARGV[2])
return {{epoch, claimed, changes}}
"""
)
"""Serve the first of some exchanges that a session was not served yet, unless the caller must first read which others
were returned.

ARGV: session, ttl in ms, the caller's epoch, the number of changes it has read, the epoch if it is new, ids.

Returns the epoch, the id or "", and the new changes: ids, with a minus if returned.
"""

GIVE_BACK = LuaScript(
    BASE
    + _POSITION
    + """
if redis.call('HGET', used, 'epoch') == ARGV[2] and redis.call('HDEL', used, ARGV[3]) == 1 then
  redis.call('RPUSH', log, '-' .. ARGV[3])
end
"""
)
"""Let another call of a session have an exchange. ARGV: session, epoch, id."""
