-- Let a lock last for another ttl, or heal it where it is missing.
-- KEYS: 1 memory (hash), 2 quarantine, 3 lock of the resource
-- ARGV: 1 run_id of the connection, 2 owner, 3 ttl in ms, 4 field of the count, 5 era, 6 count of the lease
-- Returns: renewed | held ms | not-owner | quarantined ms | not-admitted
-- Why the count: a lease that somebody has followed is never healed.
local memory = redis.call('HMGET', KEYS[1], 'admitted', 'era', 'longest', ARGV[4])
if memory[1] ~= ARGV[1] then return {'not-admitted'} end
local closed = redis.call('PTTL', KEYS[2])
if closed ~= -2 then return {'quarantined', closed} end
local holder = redis.call('GET', KEYS[3])
if holder and holder ~= ARGV[2] then return {'held', redis.call('PTTL', KEYS[3])} end
if not holder and memory[4] then
  local era, lease = tonumber(memory[2]), tonumber(ARGV[5])
  if era > lease or (era == lease and tonumber(memory[4]) > tonumber(ARGV[6])) then return {'not-owner'} end
end
redis.call('SET', KEYS[3], ARGV[2], 'PX', ARGV[3])
if tonumber(ARGV[3]) > tonumber(memory[3] or '0') then redis.call('HSET', KEYS[1], 'longest', ARGV[3]) end
return {'renewed'}
