-- Raise the count to the chosen token.
-- KEYS: 1 lock of the resource
-- ARGV: 1 owner, 2 nonce of the grant, 3 era, 4 count
-- Returns: published | not-owner | a refusal
-- Why owner and nonce: the count must reach the next owner of the lock, in the same memory. A lock
-- or a memory that is not the grant's proves nothing.
local memory = redis.call('HMGET', MEMORY, 'admitted', 'nonce', 'era', COUNT, 'prepared', 'reserved', 'granted')
if memory[1] ~= MARKER then return refusal() end
local holder = lock()
if type(holder) == 'table' and redis.call('ZSCORE', KEYS[1], ARGV[1]) then holder = ARGV[1] end
if holder ~= ARGV[1] or memory[2] ~= ARGV[2] then return {'not-owner'} end
local era, count = tonumber(memory[3]), tonumber(memory[4] or '0')
-- Another owner had the lock in between, and then a repeated request has locked it again.
if era > tonumber(ARGV[3]) or (era == tonumber(ARGV[3]) and count > tonumber(ARGV[4])) then return {'not-owner'} end
raise(memory, tonumber(ARGV[3]), tonumber(ARGV[4]))
return {'published'}
