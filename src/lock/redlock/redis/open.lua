-- End the quarantine, on the word of an operator.
-- KEYS: 1 memory (hash), 2 quarantine
-- ARGV: 1 marker of the session, 2 nonce of the memory that the operator has seen
-- Returns: opened | forgotten | a refusal
local memory = redis.call('HMGET', KEYS[1], 'admitted', 'nonce')
if memory[1] ~= ARGV[1] then return refusal() end
if memory[2] ~= ARGV[2] then return {'forgotten'} end
redis.call('DEL', KEYS[2])
return {'opened'}
