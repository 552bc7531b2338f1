-- Admit the node, or drop its counts in a larger era.
-- KEYS: 1 memory (hash), 2 quarantine
-- ARGV: 1 marker of the session, 2 nonce, 3 era, 4 1 to collect, 5 quarantine in ms, 6 1 if the fleet is new
-- Returns: activated | forgotten | a refusal
-- Why the nonce: a flush since prepare has wiped it. Why the bound: no token has a larger
-- era, so that a node in one could never grant. Why crowded is asked here: clients that race
-- would drive the era on, each by one. Why the quarantine: locks that the node forgot must have
-- expired before it grants again.
local refused = elsewhere()
if refused then return refused end
local memory = redis.call('HMGET', KEYS[1], 'admitted', 'prepared', 'nonce', 'era', 'reserved', 'granted', 'full')
if memory[2] ~= run_id or memory[3] ~= ARGV[2] then return {'forgotten'} end
local era, old, reserved = tonumber(ARGV[3]), tonumber(memory[4] or '0'), tonumber(memory[5] or '0')
if era > 999999999 then return {'forgotten'} end
local admitted = memory[1] == ARGV[1]
if admitted then
  local crowded = memory[7] or redis.call('HLEN', KEYS[1]) >= 100000
  if ARGV[4] ~= '1' or not crowded or era <= old then return {'activated'} end
elseif era <= old then
  return {'forgotten'}
end
redis.call('UNLINK', KEYS[1])
redis.call('HSET', KEYS[1], 'admitted', ARGV[1], 'prepared', run_id, 'nonce', ARGV[2], 'era', ARGV[3],
  'reserved', string.format('%.0f', math.max(reserved, era)))
-- A fleet that was in use is not blank any more.
if (admitted and memory[6]) or (not admitted and ARGV[6] ~= '1') then redis.call('HSET', KEYS[1], 'granted', 1) end
if admitted then return {'activated'} end
-- A quarantine without an end was made by hand.
local closed, before = tonumber(ARGV[5]), redis.call('PTTL', KEYS[2])
if closed > 0 and before ~= -1 and closed > before then redis.call('SET', KEYS[2], closed, 'PX', closed) end
return {'activated'}
