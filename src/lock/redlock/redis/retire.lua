-- Release a lock that several processes renew, so that none of them sets it again.
-- KEYS: 1 lock of the resource
-- ARGV: 1 owner, 2 era, 3 count of the lease
-- Returns: what a release returns
-- Why the count, also where the lock is missing: to a renewal it is as if another owner had come, and had gone. Why the
-- release comes first: a server without memory left lets through what comes behind a deletion.
local answer = release(KEYS, ARGV)
if answer[1] ~= 'released' and answer[1] ~= 'not-owner' then return answer end
local memory = redis.call('HMGET', MEMORY, 'admitted', 'nonce', 'era', COUNT, 'prepared', 'reserved', 'granted')
local count = tonumber(ARGV[3]) + 1
if memory[2] and count <= 999999 then raise(memory, tonumber(ARGV[2]), count) end
return answer
