-- Let a lock last for another ttl, or heal it where it is missing.
-- KEYS: 1 memory (hash), 2 quarantine, 3 latest, 4 long (sorted set), 5 lock of the resource
-- ARGV: 1 marker of the session, 2 owner, 3 ttl in ms, 4 field of the count, 5 era, 6 count of the lease
-- Returns: renewed | held ms | shared ms | not-owner | quarantined ms | a refusal
-- Why the count: a lease that another has superseded is never healed. Why PEXPIRE: where other
-- keys have used up the server's memory it still works, and the lease lives on.
local memory = redis.call('HMGET', KEYS[1], 'admitted', 'era', 'granted', ARGV[4])
if memory[1] ~= ARGV[1] then return refusal() end
local closed = redis.call('PTTL', KEYS[2])
if closed ~= -2 then return {'quarantined', closed} end
local holder = lock()
if type(holder) == 'table' then
  if holder.owners > 0 then return {'shared', holder.left} end
  holder = nil
end
if holder and holder ~= ARGV[2] then return {'held', redis.call('PTTL', KEYS[5])} end
if not holder and memory[4] then
  local era, lease = tonumber(memory[2]), tonumber(ARGV[5])
  if era > lease or (era == lease and tonumber(memory[4]) > tonumber(ARGV[6])) then return {'not-owner'} end
end
if holder then
  redis.call('PEXPIRE', KEYS[5], ARGV[3])
else
  redis.call('SET', KEYS[5], ARGV[2], 'PX', ARGV[3])
end
if not memory[3] then redis.pcall('HSET', KEYS[1], 'granted', 1) end
extend_latest(tonumber(ARGV[3]))
return {'renewed'}
