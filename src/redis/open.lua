-- Open the marks in this life of the server, if they are as the operator has seen them.
-- KEYS: 1 marks (hash)
-- ARGV: 1 life of the server, 2 life that the operator has seen (or empty), 3 marks that the operator has seen,
--   4 floor (or empty)
-- Returns: opened | moved
-- Why compare: what was looked at may have been flushed since.
local memory = redis.call('HMGET', KEYS[1], 'life', 'floor')
local marks = redis.call('HLEN', KEYS[1]) - (memory[1] and 1 or 0) - (memory[2] and 1 or 0)
if (memory[1] or '') ~= ARGV[2] then return {'moved'} end
if marks < tonumber(ARGV[3]) then return {'moved'} end
if ARGV[4] ~= '' and tonumber(ARGV[4]) > (tonumber(memory[2] or '0') or 0) then
  redis.call('HSET', KEYS[1], 'floor', ARGV[4])
end
redis.call('HSET', KEYS[1], 'life', ARGV[1])
return {'opened'}
