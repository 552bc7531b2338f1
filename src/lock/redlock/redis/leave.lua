-- Forget that a client waits. If it was notified, and the lock is still free, the next one is notified.
-- KEYS: 1 lock of the resource, 2 waiters (sorted set), 3 who was notified
-- ARGV: 1 the client and its ticket, 2 the client
-- Returns: 0
if redis.call('ZREM', KEYS[2], ARGV[1]) == 0 and redis.call('GET', KEYS[3]) == ARGV[2]
  and is_free(KEYS[1]) then
  redis.call('DEL', KEYS[3])
  notify(KEYS[1])
end
return 0
