-- Promise that no smaller era is given out again.
-- ARGV: 1 era, 2 nonce of a memory that is about to be started, or empty
-- Returns: reserved nonce | a refusal
-- Why the nonce in the answer: the promise counts only while this memory holds it.
local memory = redis.call('HMGET', MEMORY, 'admitted', 'prepared', 'nonce', 'reserved')
local about_to_start = memory[2] == RUN_ID and memory[3] == ARGV[2] and not elsewhere()
if (memory[1] ~= MARKER and not about_to_start) or not memory[3] then return refusal() end
if tonumber(ARGV[1]) > tonumber(memory[4] or '0') then
  -- A server out of memory permits deletions, and after one every other write of the script.
  redis.call('HDEL', MEMORY, 'nothing')
  redis.call('HSET', MEMORY, 'reserved', ARGV[1])
end
return {'reserved', memory[3]}
