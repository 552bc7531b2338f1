-- Unlock, if the owner holds the lock.
-- KEYS: 1 memory (hash), 2 quarantine, 3 latest, 4 long (sorted set), 5 lock of the resource
-- ARGV: 1 marker of the session, 2 owner, 3 key of the waiters, 4 key of who was notified, 5 what the channels
-- begin with, 6 the resource
-- Returns: released (the client that was notified) | not-owner | a refusal
-- Why the owner: an owner releases only its own lock. Why a long lock's end is noted again: the part that has
-- left may have been the longest.
if redis.call('HGET', KEYS[1], 'admitted') ~= ARGV[1] then return refusal() end
local holder = lock()
if type(holder) == 'table' then
  if redis.call('ZREM', KEYS[5], ARGV[2]) == 0 then return {'not-owner'} end
  local rest = lock()
  if rest and rest.owners > 0 then
    redis.pcall('ZADD', KEYS[4], 'XX', clock() + rest.left, KEYS[5])
    return {'released'}
  end
  if rest then redis.call('PEXPIRE', KEYS[5], rest.drains) end
  redis.call('ZREM', KEYS[4], KEYS[5])
  return {'released', notify(ARGV[3], ARGV[4], ARGV[5], ARGV[6])}
end
if holder ~= ARGV[2] then return {'not-owner'} end
redis.call('DEL', KEYS[5])
redis.call('ZREM', KEYS[4], KEYS[5])
return {'released', notify(ARGV[3], ARGV[4], ARGV[5], ARGV[6])}
