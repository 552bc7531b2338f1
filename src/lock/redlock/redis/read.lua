-- Report the era, what has been promised, and what may still be out.
-- Returns: state nonce era reserved longest | a refusal
local memory = redis.call('HMGET', MEMORY, 'admitted', 'nonce', 'era', 'reserved')
if memory[1] ~= MARKER or not memory[2] then return refusal() end
return {'state', memory[2], tonumber(memory[3]), tonumber(memory[4] or '0'), longest()}
