-- Promise that no smaller era is given out again.
-- KEYS: 1 memory (hash)
-- ARGV: 1 marker of the session, 2 era, 3 nonce of a memory that is about to be started, or empty
-- Returns: reserved nonce | a refusal
-- Why the nonce in the answer: the promise counts only while this memory holds it.
local memory = redis.call('HMGET', KEYS[1], 'admitted', 'prepared', 'nonce', 'reserved')
local about_to_start = memory[2] == run_id and memory[3] == ARGV[3] and not elsewhere()
if (memory[1] ~= ARGV[1] and not about_to_start) or not memory[3] then return refusal() end
if tonumber(ARGV[2]) > tonumber(memory[4] or '0') then
  -- What deletes is let through on a server without memory left, and what comes behind it.
  redis.call('HDEL', KEYS[1], 'nothing')
  redis.call('HSET', KEYS[1], 'reserved', ARGV[2])
end
return {'reserved', memory[3]}
