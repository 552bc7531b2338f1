-- Raise the count to the chosen token.
-- KEYS: 1 memory (hash), 2 quarantine, 3 latest, 4 long (sorted set), 5 lock of the resource
-- ARGV: 1 marker of the session, 2 owner, 3 nonce of the grant, 4 field of the count, 5 era, 6 count
-- Returns: published | not-owner | a refusal
-- Why owner and nonce: the count must reach the next owner of the lock, in the same memory. A lock
-- or a memory that is not the grant's proves nothing.
local memory = redis.call('HMGET', KEYS[1], 'admitted', 'nonce', 'era', ARGV[4], 'prepared', 'reserved', 'granted')
if memory[1] ~= ARGV[1] then return refusal() end
local holder = lock()
if type(holder) == 'table' and redis.call('ZSCORE', KEYS[5], ARGV[2]) then holder = ARGV[2] end
if holder ~= ARGV[2] or memory[2] ~= ARGV[3] then return {'not-owner'} end
local era, count = tonumber(memory[3]), tonumber(memory[4] or '0')
-- Another owner has been here in between, and a repeated request has locked again.
if era > tonumber(ARGV[5]) or (era == tonumber(ARGV[5]) and count > tonumber(ARGV[6])) then return {'not-owner'} end
raise(memory, tonumber(ARGV[5]), tonumber(ARGV[6]))
return {'published'}
