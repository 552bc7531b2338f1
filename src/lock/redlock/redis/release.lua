-- Unlock, if the owner holds the lock.
-- KEYS: 1 memory (hash), 2 quarantine, 3 lock of the resource
-- ARGV: 1 run_id of the connection, 2 owner
-- Returns: released | not-owner | not-admitted
-- Why the owner: nobody may release somebody else's lock.
if redis.call('HGET', KEYS[1], 'admitted') ~= ARGV[1] then return {'not-admitted'} end
if redis.call('GET', KEYS[3]) ~= ARGV[2] then return {'not-owner'} end
redis.call('DEL', KEYS[3])
return {'released'}
