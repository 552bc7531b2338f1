-- Mark this stretch of memory before a re-admission.
-- KEYS: 1 memory (hash)
-- ARGV: 1 run_id of the connection, 2 fresh nonce
-- Returns: prepared nonce admitted blank era reserved longest seconds microseconds
-- Why the first nonce stays: clients that race share one, or they would undo each other.
local memory = redis.call('HMGET', KEYS[1], 'admitted', 'prepared', 'nonce', 'era', 'reserved', 'longest', 'granted')
local nonce = memory[3]
local blank = not memory[7] and (not memory[1] or memory[1] == ARGV[1]) and (not memory[2] or memory[2] == ARGV[1])
if memory[2] ~= ARGV[1] or not nonce then
  nonce = ARGV[2]
  redis.call('HSET', KEYS[1], 'prepared', ARGV[1], 'nonce', nonce)
end
local time = redis.call('TIME')
return {'prepared', nonce, memory[1] == ARGV[1] and 1 or 0, blank and 1 or 0,
  tonumber(memory[4] or '0'), tonumber(memory[5] or '0'), tonumber(memory[6] or '0'),
  tonumber(time[1]), tonumber(time[2])}
