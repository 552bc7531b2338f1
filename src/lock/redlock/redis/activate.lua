-- Admit the node, or drop its counts in a larger era.
-- ARGV: 1 nonce, 2 era, 3 1 to collect, 4 quarantine in ms, 5 1 if the fleet is new
-- Returns: activated | forgotten | a refusal
-- Why the nonce: a flush since prepare has wiped it. Why the life: a server that restarted with its data may lack its
-- last writes. Why the bound: no token has a larger era, so a node in one could never grant. Why crowded is checked
-- here: racing clients would raise the era, each by one. Why the quarantine: locks that the node forgot must have
-- expired before it grants again.
local refused = elsewhere()
if refused then return refused end
local memory = redis.call('HMGET', MEMORY, 'admitted', 'prepared', 'nonce', 'era', 'reserved', 'granted', 'full')
if memory[2] ~= RUN_ID or memory[3] ~= ARGV[1] then return {'forgotten'} end
local era, old, reserved = tonumber(ARGV[2]), tonumber(memory[4] or '0'), tonumber(memory[5] or '0')
if era > 999999999 then return {'forgotten'} end
local admitted = memory[1] == MARKER
if admitted then
  local crowded = memory[7] or redis.call('HLEN', MEMORY) >= 100000
  if ARGV[3] ~= '1' or not crowded or era <= old then return {'activated'} end
elseif era <= old then
  return {'forgotten'}
end
redis.call('UNLINK', MEMORY)
redis.call('HSET', MEMORY, 'admitted', MARKER, 'prepared', RUN_ID, 'nonce', ARGV[1], 'era', ARGV[2],
  'reserved', string.format('%.0f', math.max(reserved, era)))
-- A fleet that was in use is not blank any more.
if (admitted and memory[6]) or (not admitted and ARGV[5] ~= '1') then redis.call('HSET', MEMORY, 'granted', 1) end
if admitted then return {'activated'} end
-- A quarantine without an end was made by hand.
local closed, before = tonumber(ARGV[4]), redis.call('PTTL', QUARANTINE)
if closed > 0 and before ~= -1 and closed > before then redis.call('SET', QUARANTINE, closed, 'PX', closed) end
return {'activated'}
