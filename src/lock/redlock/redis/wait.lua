-- Note that a client waits for a lock. No rule depends on it.
-- KEYS: 1 lock of the resource
-- ARGV: 1 the client and its ticket, 2 for how long it has waited in ms, 3 for how long it is noted in ms
-- Returns: 1 if the lock is free and no other client was notified, or else 0
-- Why the order: the longest waiter is notified first. Why the bound: no rule depends on waiters.
local resource = string.sub(KEYS[1], NAME)
local waiting, notified = WAITING .. resource, redis.call('GET', NOTIFIED .. resource)
if is_free(KEYS[1]) and (not notified or notified == string.match(ARGV[1], '^%x+')) then return 1 end
if redis.call('ZCARD', waiting) >= 1000 then return 0 end
local time = redis.call('TIME')
redis.call('ZADD', waiting, time[1] * 1000 + time[2] / 1000 - ARGV[2], ARGV[1])
redis.call('PEXPIRE', waiting, ARGV[3])
return 0
