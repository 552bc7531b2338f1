-- Note that a client waits for a lock. No rule rests on it.
-- KEYS: 1 lock of the resource, 2 waiters (sorted set), 3 who was notified
-- ARGV: 1 the client and its ticket, 2 for how long it has waited in ms, 3 for how long it is noted in ms
-- Returns: 1 if the lock is free and no other client was notified, or else 0
-- Why the order: the one who has waited longest is notified first. Why the bound: no rule rests on them.
local notified = redis.call('GET', KEYS[3])
if is_free(KEYS[1]) and (not notified or notified == string.match(ARGV[1], '^%x+')) then return 1 end
if redis.call('ZCARD', KEYS[2]) >= 1000 then return 0 end
local time = redis.call('TIME')
redis.call('ZADD', KEYS[2], time[1] * 1000 + time[2] / 1000 - ARGV[2], ARGV[1])
redis.call('PEXPIRE', KEYS[2], ARGV[3])
return 0
