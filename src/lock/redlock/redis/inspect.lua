-- Report the state of the node to an operator, or the error of a write that changes nothing.
-- Returns: report nonce era reserved longest quarantine counts | a refusal. Quarantine -2: none.
local memory = redis.call('HMGET', MEMORY, 'admitted', 'nonce', 'era', 'reserved', 'granted', 'full')
if memory[1] ~= MARKER or not memory[2] then return refusal() end
local write = redis.pcall('SET', MEMORY .. ':probe', '', 'XX')
if type(write) == 'table' and write.err then return write end
local counts = redis.call('HLEN', MEMORY) - 5 - (memory[5] and 1 or 0) - (memory[6] and 1 or 0)
return {'report', memory[2], tonumber(memory[3]), tonumber(memory[4] or '0'), longest(), redis.call('PTTL', QUARANTINE),
  math.max(counts, 0)}
