-- Report the state of the node to an operator.
-- KEYS: 1 memory (hash), 2 quarantine, 3 latest, 4 long (sorted set)
-- ARGV: 1 marker of the session
-- Returns: report nonce era reserved longest quarantine counts | a refusal. Quarantine -2: none.
local memory = redis.call('HMGET', KEYS[1], 'admitted', 'nonce', 'era', 'reserved', 'granted', 'full')
if memory[1] ~= ARGV[1] or not memory[2] then return refusal() end
local counts = redis.call('HLEN', KEYS[1]) - 5 - (memory[5] and 1 or 0) - (memory[6] and 1 or 0)
return {'report', memory[2], tonumber(memory[3]), tonumber(memory[4] or '0'), longest(), redis.call('PTTL', KEYS[2]),
  math.max(counts, 0)}
