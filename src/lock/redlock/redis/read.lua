-- Report the era, what has been promised, and what may still be out.
-- KEYS: 1 memory (hash), 2 quarantine, 3 latest, 4 long (sorted set)
-- ARGV: 1 marker of the session
-- Returns: state nonce era reserved longest | a refusal
local memory = redis.call('HMGET', KEYS[1], 'admitted', 'nonce', 'era', 'reserved')
if memory[1] ~= ARGV[1] or not memory[2] then return refusal() end
return {'state', memory[2], tonumber(memory[3]), tonumber(memory[4] or '0'), longest()}
