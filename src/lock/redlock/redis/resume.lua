-- Extend a lock by another ttl if it is still held: a renewal that never sets a missing lock.
-- KEYS: 1 lock of the resource
-- ARGV: 1 owner, 2 ttl in ms, 3 for how much longer than this it must last still, in ms
-- Returns: renewed | not-owner | quarantined ms | a refusal
local memory = redis.call('HMGET', MEMORY, 'admitted', 'granted')
if memory[1] ~= MARKER then return refusal() end
local closed = redis.call('PTTL', QUARANTINE)
if closed ~= -2 then return {'quarantined', closed} end
if lock() ~= ARGV[1] or redis.call('PTTL', KEYS[1]) <= tonumber(ARGV[3]) then return {'not-owner'} end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
if not memory[2] then redis.pcall('HSET', MEMORY, 'granted', 1) end
extend_latest(tonumber(ARGV[2]))
return {'renewed'}
