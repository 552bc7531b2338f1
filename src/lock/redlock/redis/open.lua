-- End the quarantine, on the word of an operator.
-- ARGV: 1 nonce of the memory that the operator has seen
-- Returns: opened | forgotten | a refusal
local memory = redis.call('HMGET', MEMORY, 'admitted', 'nonce')
if memory[1] ~= MARKER then return refusal() end
if memory[2] ~= ARGV[1] then return {'forgotten'} end
redis.call('DEL', QUARANTINE)
return {'opened'}
