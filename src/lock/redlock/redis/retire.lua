-- Release a lock that several processes renew, so that none of them sets it again.
-- KEYS: 1 lock of the resource
-- ARGV: 1 owner, 2 era, 3 count of the lease
-- Returns: what a release returns
-- Why the count is raised even if the lock is missing: to a renewal another owner has had the lock since. Why zero in a
-- later era: a node that has lost its state has no count, and a renewal would set the lock there. Why the release comes
-- first: after its deletion a server out of memory permits the other writes.
local answer = release(KEYS, ARGV)
if answer[1] ~= 'released' and answer[1] ~= 'not-owner' then return answer end
local memory = redis.call('HMGET', MEMORY, 'admitted', 'nonce', 'era', COUNT, 'prepared', 'reserved', 'granted')
local era, count = tonumber(ARGV[2]), tonumber(ARGV[3]) + 1
if not memory[2] then return answer end
if era < tonumber(memory[3]) then
  if not memory[4] then redis.call('HSET', MEMORY, COUNT, 0) end
elseif count <= 999999 then
  raise(memory, era, count)
end
return answer
