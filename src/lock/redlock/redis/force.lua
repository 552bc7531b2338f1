-- Take a lock from the holders that an operator has seen, and write that down.
-- KEYS: 1 memory (hash), 2 quarantine, 3 latest, 4 long (sorted set), 5 lock of the resource, 6 audit (sorted set)
-- ARGV: 1 empty, 2 field of the count, 3 key of those who wait, 4 key of who was told, 5 what the channels begin
-- with, 6 the resource, 7 what is written down, 8 and on: the holders
-- Returns: how many of the holders had it
-- Why the holders: whoever has come since keeps the lock. Why the count: the holder's next renewal would set the
-- lock again. To the protocol it is as if another owner had come and gone. Why the deletion comes first: a
-- server without memory left lets through what comes behind it.
local holder, taken = redis.pcall('GET', KEYS[5]), 0
for place = 8, #ARGV do
  if type(holder) == 'table' then
    local gone = redis.pcall('ZREM', KEYS[5], ARGV[place])
    if type(gone) == 'number' then taken = taken + gone end
  elseif holder == ARGV[place] then
    taken = redis.call('DEL', KEYS[5])
  end
end
if taken == 0 then return 0 end
local memory = redis.call('HMGET', KEYS[1], 'admitted', ARGV[2])
local count = tonumber(memory[2] or '0')
if memory[1] and count < 999999 then
  redis.call('HSET', KEYS[1], ARGV[2], count + 1)
elseif memory[1] then
  redis.call('HSET', KEYS[1], 'full', 1)
end
local rest = lock()
if type(rest) == 'table' and rest.owners > 0 then
  redis.pcall('ZADD', KEYS[4], 'XX', clock() + rest.left, KEYS[5])
else
  if type(rest) == 'table' and rest.drains then redis.call('PEXPIRE', KEYS[5], rest.drains) end
  redis.call('ZREM', KEYS[4], KEYS[5])
  tell(ARGV[3], ARGV[4], ARGV[5], ARGV[6])
end
note(KEYS[6], ARGV[7])
return taken
