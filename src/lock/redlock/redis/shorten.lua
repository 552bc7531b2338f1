-- Let a lock end after the rest of its time, if the owner holds it: at once, if there is none. No client is notified.
-- For the rest an exclusive lock gets a dot behind its owner's name.
-- KEYS: 1 lock of the resource
-- ARGV: 1 owner, 2 rest in ms
-- Returns: released | not-owner | a refusal
-- Why never longer than before: no node has noted that the lock may be held for longer. Why the dot: no process that has
-- the ticket of the lease renews it. Why the deletion comes first: a server without memory left lets through what comes
-- behind it.
if redis.call('HGET', MEMORY, 'admitted') ~= MARKER then return refusal() end
local holder, rest = lock(), tonumber(ARGV[2])
if type(holder) == 'table' then
  local ends = redis.call('ZSCORE', KEYS[1], ARGV[1])
  if not ends then return {'not-owner'} end
  if ends - clock() > rest then write_part(ARGV[1], rest) end
  local left = lock()
  redis.pcall('ZADD', LONG, 'XX', clock() + (left and left.left or 0), KEYS[1])
  return {'released'}
end
if holder ~= ARGV[1] then return {'not-owner'} end
local left = redis.call('PTTL', KEYS[1])
if left > rest or left == -1 then left = rest end
redis.call('DEL', KEYS[1])
if left > 0 then
  redis.call('SET', KEYS[1], ARGV[1] .. '.', 'PX', left)
  redis.pcall('ZADD', LONG, 'XX', clock() + left, KEYS[1])
else
  redis.call('ZREM', LONG, KEYS[1])
end
return {'released'}
