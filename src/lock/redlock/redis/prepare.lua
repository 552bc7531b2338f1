-- Mark this stretch of memory before a re-admission.
-- ARGV: 1 fresh nonce, 2 the fleet that is moved to this one, or empty
-- Returns: prepared nonce era reserved longest admitted blank crowded seconds microseconds other |
-- a refusal. The other fleet that is written there is empty for none.
-- Why the first nonce stays: clients that race share one, or they would undo each other. Why a node that has left a
-- fleet joins only in a move, or once that is done: the old fleet's majority that has left must not get lost before.
local left = redis.call('HMGET', MEMORY, 'sealed_as', 'sealed_to', 'started')
-- A server out of memory permits deletions, and after one every other write of the script.
redis.call('HDEL', MEMORY, 'nothing')
if ARGV[2] ~= '' and of_this_life(left[1]) and left[2] ~= FLEET and (left[3] or left[2] == ARGV[2]) then
  redis.call('HSET', MEMORY, 'sealed_to', FLEET)
  redis.call('HDEL', MEMORY, 'joining')
end
local refused = elsewhere()
if refused then return refused end
local memory = redis.call('HMGET', MEMORY, 'admitted', 'prepared', 'nonce', 'era', 'reserved', 'granted', 'full',
  'sealed_as', 'sealed_to', 'joining')
local nonce, admitted = memory[3], memory[1] == MARKER
local blank = not memory[6] and not memory[8] and (not memory[1] or admitted) and (not memory[2] or memory[2] == RUN_ID)
local crowded = admitted and (memory[7] or redis.call('HLEN', MEMORY) >= 100000)
-- A node that has left a fleet carries its trace, also where it has come back to that one.
local other = ''
if memory[9] then
  other = memory[9] ~= FLEET and memory[9] or fleet_of(memory[8])
elseif memory[1] and fleet_of(memory[1]) ~= FLEET then
  other = fleet_of(memory[1])
end
-- A node that has left gets a new nonce with the new fleet. Otherwise a mover that was asleep would not notice that the
-- node has joined and left again.
local joins = memory[8] and not memory[10]
if joins then redis.call('HSET', MEMORY, 'joining', 1) end
if memory[2] ~= RUN_ID or not nonce or joins then
  nonce = ARGV[1]
  redis.call('HSET', MEMORY, 'prepared', RUN_ID, 'nonce', nonce)
end
local time = redis.call('TIME')
return {'prepared', nonce, tonumber(memory[4] or '0'), tonumber(memory[5] or '0'), longest(), admitted and 1 or 0,
  blank and 1 or 0, crowded and 1 or 0, tonumber(time[1]), tonumber(time[2]), other}
