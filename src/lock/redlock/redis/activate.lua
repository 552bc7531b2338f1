-- Admit the node, or start a larger era on it.
-- KEYS: 1 memory (hash), 2 quarantine
-- ARGV: 1 run_id of the connection, 2 nonce, 3 era, 4 quarantine in ms, 5 settle in ms
-- Returns: activated | forgotten
-- Why the nonce: a flush since prepare has wiped it. Why the bound: no token has a larger
-- era, so that a node in one could never grant. Why the quarantine: locks that the
-- node forgot must have expired before it grants again.
local memory = redis.call('HMGET', KEYS[1], 'admitted', 'prepared', 'nonce', 'era', 'reserved', 'longest', 'granted')
if memory[2] ~= ARGV[1] or memory[3] ~= ARGV[2] then return {'forgotten'} end
local era, old, reserved = tonumber(ARGV[3]), tonumber(memory[4] or '0'), tonumber(memory[5] or '0')
if era > 999999999 then return {'forgotten'} end
local forgot, closed = memory[1] ~= ARGV[1], 0
if forgot then
  if era <= math.max(old, reserved) then return {'forgotten'} end
  closed = math.max(tonumber(ARGV[4]), tonumber(ARGV[5]))
elseif era > old then
  closed = tonumber(ARGV[5])
end
if forgot or era > old then
  redis.call('UNLINK', KEYS[1])
  redis.call('HSET', KEYS[1], 'admitted', ARGV[1], 'prepared', ARGV[1], 'nonce', ARGV[2], 'era', ARGV[3],
    'reserved', string.format('%.0f', math.max(reserved, era)), 'longest', memory[6] or 0)
  if memory[7] and not forgot then redis.call('HSET', KEYS[1], 'granted', 1) end
end
if closed > redis.call('PTTL', KEYS[2]) and closed > 0 then redis.call('SET', KEYS[2], 1, 'PX', closed) end
return {'activated'}
