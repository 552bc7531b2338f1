-- What every script shares. A script is the body of a function behind this. MEMORY (hash), QUARANTINE, LATEST, LONG
-- (sorted set) are keys of the node, and MARKER is the session's: RUN_ID, a space, and FLEET. A script about a lock has
-- the key of the lock as its first. The memory belongs to a fleet in one life of the server: `admitted` is the marker
-- under which the node was admitted. A node that has left its fleet has `sealed_as`, the marker that it had, and
-- `sealed_to`, the new fleet, instead. In another life than the one written there it has forgotten. The field of the
-- lock's count.
local COUNT = KEYS[1] and 'c:' .. string.sub(KEYS[1], NAME)
local function fleet_of(marker)
  return string.match(marker, '^%S+ (.*)$')
end
local function of_this_life(marker)
  return marker and string.match(marker, '^%S+') == RUN_ID
end
-- Why the node refuses this session's fleet, if it does.
local function elsewhere()
  local place = redis.call('HMGET', MEMORY, 'admitted', 'sealed_as', 'sealed_to')
  if of_this_life(place[1]) and fleet_of(place[1]) ~= FLEET then return {'other-fleet', fleet_of(place[1])} end
  if of_this_life(place[2]) and place[3] ~= FLEET then return {'moved', place[3]} end
end
local function refusal()
  return elsewhere() or {'not-admitted'}
end
-- The node's clock in milliseconds.
local function clock()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end
-- How long a key lasts, but not longer than the milliseconds that are its value: the clock may have
-- been set back since.
local function lasts(key)
  return math.min(redis.call('PTTL', key), tonumber(redis.call('GET', key) or '0') or 0)
end
-- Notes until when a lock may be out. A long one is noted by itself, so that its release ends it;
-- for the others the latest end will do, an eighth too late, or each grant would write it again.
-- Without memory left for writes an expiry can still be moved.
local function extend_latest(ttl)
  if ttl > 60000 then
    local now = clock()
    redis.pcall('ZREMRANGEBYSCORE', LONG, '-inf', now)
    if type(redis.pcall('ZADD', LONG, now + ttl, KEYS[1])) == 'number' then return end
  end
  if lasts(LATEST) >= ttl then return end
  local until_then = ttl + math.ceil(ttl / 8)
  local noted = redis.pcall('SET', LATEST, until_then, 'PX', until_then)
  if noted.err then redis.call('PEXPIRE', LATEST, until_then) end
end
-- Raises a count to that of a token, if it is below. `memory` has these fields of the hash: admitted,
-- nonce, era, the count, prepared, reserved, granted. A larger era begins without counts.
local function raise(memory, era, count)
  local now = tonumber(memory[3])
  if era > now then
    redis.call('UNLINK', MEMORY)
    redis.call('HSET', MEMORY, 'admitted', memory[1], 'nonce', memory[2], 'prepared', memory[5],
      'reserved', memory[6] or 0, 'granted', memory[7] or 1, 'era', era, COUNT, count)
  elseif era == now and count > tonumber(memory[4] or '0') then
    redis.call('HSET', MEMORY, COUNT, count)
  end
end
-- The value of a lock: the owner and, behind a space, its name for display, with a dot if it was released early; a
-- table if several share it; nil if nobody holds it. A shared lock is a sorted set: each owner with the end of its
-- part; `last` is the owner that ends last. Two members are no owners: until `draining` no owner joins, and after
-- `drained` a new drain may begin.
local function lock()
  local holder = redis.pcall('GET', KEYS[1])
  if type(holder) ~= 'table' then return holder or nil end
  local now = clock()
  redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
  local owners, drains = redis.call('ZCARD', KEYS[1]), redis.call('ZSCORE', KEYS[1], 'draining')
  if drains then owners = owners - 1 end
  if redis.call('ZSCORE', KEYS[1], 'drained') then owners = owners - 1 end
  if owners == 0 and not drains then
    redis.call('DEL', KEYS[1])
    return nil
  end
  local last, place = redis.call('ZREVRANGE', KEYS[1], 0, 2, 'WITHSCORES'), 1
  while last[place] == 'draining' or last[place] == 'drained' do place = place + 2 end
  local ends = last[place + 1] or last[2]
  return {owners = owners, left = ends - now, last = last[place], drains = drains and drains - now}
end
-- Notes until when a part may be out, beside others that last for `left`. Only a long one takes the place of
-- what is noted of the lock, and must not be shorter than the others. A short one does not pass `left` on: if
-- the clock was set back it is too long, and nothing would correct it.
local function extend_latest_of_part(left, ttl)
  extend_latest(ttl > 60000 and math.max(left, ttl) or ttl)
end
-- Writes a member of a shared lock, which lasts as long as its last one.
local function write_part(member, ttl)
  local now = clock()
  redis.call('ZADD', KEYS[1], now + ttl, member)
  local last = redis.call('ZREVRANGE', KEYS[1], 0, 0, 'WITHSCORES')
  redis.call('PEXPIRE', KEYS[1], last[2] - now)
end
-- How long a lock that was granted or renewed here may still be out, and how long one that may have been forgotten.
local function longest_lock()
  local last = redis.call('ZREVRANGE', LONG, 0, 0, 'WITHSCORES')
  return math.max(lasts(LATEST), last[2] and last[2] - clock() or 0, 0)
end
local function longest()
  return math.max(lasts(QUARANTINE), longest_lock())
end
