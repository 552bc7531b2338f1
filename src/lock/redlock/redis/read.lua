-- Tell the era and what has been promised.
-- KEYS: 1 memory (hash)
-- ARGV: 1 run_id of the connection
-- Returns: state era reserved longest | not-admitted
local memory = redis.call('HMGET', KEYS[1], 'admitted', 'era', 'reserved', 'longest')
if memory[1] ~= ARGV[1] then return {'not-admitted'} end
return {'state', tonumber(memory[2]), tonumber(memory[3] or '0'), tonumber(memory[4] or '0')}
