-- Forget that a client waits. If it was notified, and the lock is still free, the next one is notified.
-- KEYS: 1 lock of the resource
-- ARGV: 1 the client and its ticket, 2 the client
-- Returns: 0
local resource = string.sub(KEYS[1], NAME)
if redis.call('ZREM', WAITING .. resource, ARGV[1]) == 0 and redis.call('GET', NOTIFIED .. resource) == ARGV[2]
  and is_free(KEYS[1]) then
  redis.call('DEL', NOTIFIED .. resource)
  notify(KEYS[1])
end
return 0
