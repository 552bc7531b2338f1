-- Take a lock from the holders that an operator has seen, and write that down.
-- KEYS: 1 memory (hash), 2 quarantine, 3 latest, 4 long (sorted set), 5 lock of the resource, 6 audit (sorted set)
-- ARGV: 1 empty, 2 what is written down, 3 the resource, 4 field of the count, 5 key of those who wait, 6 key of
-- who was told, 7 what the channels begin with, 8 era, 9 count of a token that nobody has yet, or zeros, 10 and
-- on: the holders
-- Returns: how many of the holders had it
-- Why the holders: whoever has come since keeps the lock. Why the count, also where the lock is free: the
-- holder's next renewal would set the lock again. To the protocol it is as if another owner had got that token, and had
-- gone. Why the deletion comes first: a server without memory left lets through what comes behind it.
local holder, taken = redis.pcall('GET', KEYS[5]), 0
for place = 10, #ARGV do
  if type(holder) == 'table' then
    local gone = redis.pcall('ZREM', KEYS[5], ARGV[place])
    if type(gone) == 'number' then taken = taken + gone end
  elseif holder == ARGV[place] then
    taken = redis.call('DEL', KEYS[5])
  end
end
local rest = lock()
if type(rest) == 'string' then return 0 end
local is_free = not rest or rest.owners == 0
if taken == 0 and not is_free then return 0 end
local memory = redis.call('HMGET', KEYS[1], 'admitted', 'nonce', 'era', ARGV[4], 'prepared', 'reserved', 'granted')
if memory[1] and memory[3] then
  local era, count = tonumber(memory[3]), tonumber(memory[4] or '0') + math.min(taken, 1)
  local lease_era, lease = tonumber(ARGV[8]), tonumber(ARGV[9])
  if lease_era > era or (lease_era == era and lease > count) then era, count = lease_era, lease end
  if count > 999999 then
    redis.call('HSET', KEYS[1], 'full', 1)
  else
    raise(memory, era, count)
  end
end
if taken == 0 then return 0 end
if is_free then
  if rest and rest.drains then redis.call('PEXPIRE', KEYS[5], rest.drains) end
  redis.call('ZREM', KEYS[4], KEYS[5])
  tell(ARGV[5], ARGV[6], ARGV[7], ARGV[3])
else
  redis.pcall('ZADD', KEYS[4], 'XX', clock() + rest.left, KEYS[5])
end
note(KEYS[6], ARGV[2])
return taken
