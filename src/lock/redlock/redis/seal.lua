-- Leave the fleet of the session for another one.
-- ARGV: 1 the new fleet, 2 step, 3 era
-- The steps: `leave`; `promise` the era if the node has left; `done`: the new fleet was started in that era, so that a
-- node of the old one in a smaller era leaves, too, and one that has left may join any other fleet.
-- Returns: state nonce era reserved longest | forgotten | a refusal
-- Why the first seal stays: two moves to different fleets must not both continue. Why the steps: a mover
-- that wakes up late must not undo what others have done since. A node that has left, and was
-- admitted in the new fleet since, answers as one that has left.
local memory = redis.call('HMGET', MEMORY, 'admitted', 'nonce', 'era', 'reserved', 'sealed_as', 'sealed_to')
if ARGV[1] == FLEET or not memory[2] then return refusal() end
local era, reserved, bound = tonumber(memory[3] or '0'), tonumber(memory[4] or '0'), tonumber(ARGV[3])
local leaves = memory[1] == MARKER
local left = memory[5] == MARKER and memory[6] == ARGV[1]
if not leaves and not left and memory[1] ~= RUN_ID .. ' ' .. ARGV[1] then return refusal() end
if leaves and (ARGV[2] == 'promise' or (ARGV[2] == 'done' and era >= bound)) then return {'forgotten'} end
-- This must work on a server out of memory, as operators leave such a server. It permits deletions, and after one every
-- other write.
redis.call('HDEL', MEMORY, 'nothing')
if leaves then
  redis.call('HSET', MEMORY, 'sealed_as', MARKER, 'sealed_to', ARGV[1])
  redis.call('HDEL', MEMORY, 'admitted', 'started', 'joining')
end
if ARGV[2] == 'done' and (leaves or left) then redis.call('HSET', MEMORY, 'started', 1) end
if ARGV[2] == 'promise' and bound > reserved then
  reserved = bound
  redis.call('HSET', MEMORY, 'reserved', ARGV[3])
end
return {'state', memory[2], era, reserved, longest()}
