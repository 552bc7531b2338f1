-- Let a part in a shared lock last for another ttl, or heal it where it is missing.
-- KEYS: 1 lock of the resource
-- ARGV: 1 owner, 2 ttl in ms, 3 era, 4 count of the lease
-- Returns: renewed | held ms | not-owner | quarantined ms | a refusal
-- Why the count is raised: an owner that joins is not counted. A count below the token of
-- a shared lease may be the token of an exclusive one.
local memory = redis.call('HMGET', MEMORY, 'admitted', 'nonce', 'era', COUNT, 'prepared', 'reserved', 'granted')
if memory[1] ~= MARKER then return refusal() end
local closed = redis.call('PTTL', QUARANTINE)
if closed ~= -2 then return {'quarantined', closed} end
local holder = lock()
if holder and type(holder) ~= 'table' then return {'held', redis.call('PTTL', KEYS[1])} end
if not holder or not redis.call('ZSCORE', KEYS[1], ARGV[1]) then
  local era, lease, count = tonumber(memory[3]), tonumber(ARGV[3]), tonumber(ARGV[4])
  if memory[4] and (era > lease or (era == lease and tonumber(memory[4]) > count)) then return {'not-owner'} end
  raise(memory, lease, count)
end
if not memory[7] then redis.pcall('HSET', MEMORY, 'granted', 1) end
write_part(ARGV[1], tonumber(ARGV[2]))
extend_latest_of_part(holder and holder.left or 0, tonumber(ARGV[2]))
return {'renewed'}
