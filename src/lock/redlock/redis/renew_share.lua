-- Let a part in a shared lock last for another ttl, or heal it where it is missing.
-- KEYS: 1 memory (hash), 2 quarantine, 3 latest, 4 long (sorted set), 5 lock of the resource
-- ARGV: 1 marker of the session, 2 owner, 3 ttl in ms, 4 field of the count, 5 era, 6 count of the lease
-- Returns: renewed | held ms | not-owner | quarantined ms | a refusal
-- Why the count is raised: an owner that joins is not counted. A count below the token of
-- a lease that shares the lock may be the token of one that held it alone.
local memory = redis.call('HMGET', KEYS[1], 'admitted', 'nonce', 'era', ARGV[4], 'prepared', 'reserved', 'granted')
if memory[1] ~= ARGV[1] then return refusal() end
local closed = redis.call('PTTL', KEYS[2])
if closed ~= -2 then return {'quarantined', closed} end
local holder = lock()
if holder and type(holder) ~= 'table' then return {'held', redis.call('PTTL', KEYS[5])} end
if not holder or not redis.call('ZSCORE', KEYS[5], ARGV[2]) then
  local era, lease, count = tonumber(memory[3]), tonumber(ARGV[5]), tonumber(ARGV[6])
  if memory[4] and (era > lease or (era == lease and tonumber(memory[4]) > count)) then return {'not-owner'} end
  raise(memory, lease, count)
end
if not memory[7] then redis.pcall('HSET', KEYS[1], 'granted', 1) end
write_part(ARGV[2], tonumber(ARGV[3]))
extend_latest_of_part(holder and holder.left or 0, tonumber(ARGV[3]))
return {'renewed'}
