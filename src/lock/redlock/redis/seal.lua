-- Leave the fleet of the session for another one.
-- KEYS: 1 memory (hash), 2 quarantine, 3 latest, 4 long (sorted set)
-- ARGV: 1 marker of the session, 2 the new fleet, 3 step, 4 era
-- The steps: `leave`; `promise` the era if the node has left; `done`: the new fleet was started in
-- that era, so that a node of the old one in a smaller era leaves, too, and one that has left may
-- join any other fleet.
-- Returns: sealed nonce era reserved longest | forgotten | a refusal
-- Why the first seal stays: two moves to different fleets must not both go on. Why the steps: a mover
-- that wakes up late must not undo what others have done since. A node that has left, and was
-- admitted in the new fleet since, answers as one that has left.
local memory = redis.call('HMGET', KEYS[1], 'admitted', 'nonce', 'era', 'reserved', 'sealed_as', 'sealed_to')
if ARGV[2] == my_fleet or not memory[2] then return refusal() end
local era, reserved, bound = tonumber(memory[3] or '0'), tonumber(memory[4] or '0'), tonumber(ARGV[4])
local leaves = memory[1] == ARGV[1]
local left = memory[5] == ARGV[1] and memory[6] == ARGV[2]
if not leaves and not left and memory[1] ~= run_id .. ' ' .. ARGV[2] then return refusal() end
if leaves and (ARGV[3] == 'promise' or (ARGV[3] == 'done' and era >= bound)) then return {'forgotten'} end
-- It has to work on a server without memory left: that is a reason to leave it. What deletes is let
-- through, and what comes behind it.
redis.call('HDEL', KEYS[1], 'nothing')
if leaves then
  redis.call('HSET', KEYS[1], 'sealed_as', ARGV[1], 'sealed_to', ARGV[2])
  redis.call('HDEL', KEYS[1], 'admitted', 'started', 'joining')
end
if ARGV[3] == 'done' and (leaves or left) then redis.call('HSET', KEYS[1], 'started', 1) end
if ARGV[3] == 'promise' and bound > reserved then
  reserved = bound
  redis.call('HSET', KEYS[1], 'reserved', ARGV[4])
end
return {'sealed', memory[2], era, reserved, longest()}
