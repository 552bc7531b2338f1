-- Unlock, if the owner holds the lock.
-- KEYS: 1 lock of the resource
-- ARGV: 1 owner
-- Returns: released (the client that was notified) | not-owner | a refusal
-- Why the owner: an owner releases only its own lock. Why a long lock's end is noted again: the part that has
-- left may have been the longest.
if redis.call('HGET', MEMORY, 'admitted') ~= MARKER then return refusal() end
local holder = lock()
if type(holder) == 'table' then
  if redis.call('ZREM', KEYS[1], ARGV[1]) == 0 then return {'not-owner'} end
  local rest = lock()
  if rest and rest.owners > 0 then
    redis.pcall('ZADD', LONG, 'XX', clock() + rest.left, KEYS[1])
    return {'released'}
  end
  if rest then redis.call('PEXPIRE', KEYS[1], rest.drains) end
  redis.call('ZREM', LONG, KEYS[1])
  return {'released', notify(KEYS[1])}
end
if holder ~= ARGV[1] then return {'not-owner'} end
redis.call('DEL', KEYS[1])
redis.call('ZREM', LONG, KEYS[1])
return {'released', notify(KEYS[1])}
