-- Let a lock end after the rest of its time, if the owner holds it: at once, if there is none. No client is notified.
-- KEYS: 1 memory (hash), 2 quarantine, 3 latest, 4 long (sorted set), 5 lock of the resource
-- ARGV: 1 marker of the session, 2 owner, 3 rest in ms
-- Returns: released | not-owner | a refusal
-- Why never longer than before: nobody has noted that the lock may be out for longer.
if redis.call('HGET', KEYS[1], 'admitted') ~= ARGV[1] then return refusal() end
local holder, rest = lock(), tonumber(ARGV[3])
if type(holder) == 'table' then
  local ends = redis.call('ZSCORE', KEYS[5], ARGV[2])
  if not ends then return {'not-owner'} end
  if ends - clock() > rest then write_part(ARGV[2], rest) end
  local left = lock()
  redis.pcall('ZADD', KEYS[4], 'XX', clock() + (left and left.left or 0), KEYS[5])
  return {'released'}
end
if holder ~= ARGV[2] then return {'not-owner'} end
local left = redis.call('PTTL', KEYS[5])
if left > rest or left == -1 or rest == 0 then
  redis.call('PEXPIRE', KEYS[5], ARGV[3])
  left = rest
end
if left > 0 then
  redis.pcall('ZADD', KEYS[4], 'XX', clock() + left, KEYS[5])
else
  redis.call('ZREM', KEYS[4], KEYS[5])
end
return {'released'}
