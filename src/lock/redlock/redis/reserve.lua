-- Promise that no smaller era is given out again.
-- KEYS: 1 memory (hash)
-- ARGV: 1 run_id of the connection, 2 era
-- Returns: reserved | not-admitted
local memory = redis.call('HMGET', KEYS[1], 'admitted', 'reserved')
if memory[1] ~= ARGV[1] then return {'not-admitted'} end
if tonumber(ARGV[2]) > tonumber(memory[2] or '0') then redis.call('HSET', KEYS[1], 'reserved', ARGV[2]) end
return {'reserved'}
