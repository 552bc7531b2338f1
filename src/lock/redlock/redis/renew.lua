-- Let a lock last for another ttl, or heal it where it is missing.
-- KEYS: 1 lock of the resource
-- ARGV: 1 owner, 2 ttl in ms, 3 era, 4 count of the lease
-- Returns: renewed | held ms | shared ms | not-owner | quarantined ms | a refusal
-- Why the count: a lease that another has superseded is never healed. Why PEXPIRE: where other
-- keys have used up the server's memory it still works, and the lease lives on.
local memory = redis.call('HMGET', MEMORY, 'admitted', 'era', 'granted', COUNT)
if memory[1] ~= MARKER then return refusal() end
local closed = redis.call('PTTL', QUARANTINE)
if closed ~= -2 then return {'quarantined', closed} end
local holder = lock()
if type(holder) == 'table' then
  if holder.owners > 0 then return {'shared', holder.left} end
  holder = nil
end
if holder and holder ~= ARGV[1] then return {'held', redis.call('PTTL', KEYS[1])} end
if not holder and memory[4] then
  local era, lease = tonumber(memory[2]), tonumber(ARGV[3])
  if era > lease or (era == lease and tonumber(memory[4]) > tonumber(ARGV[4])) then return {'not-owner'} end
end
if holder then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
else
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
end
if not memory[3] then redis.pcall('HSET', MEMORY, 'granted', 1) end
extend_latest(tonumber(ARGV[2]))
return {'renewed'}
