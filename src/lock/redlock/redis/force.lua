-- Take a lock from the holders that an operator has seen, and write that down.
-- KEYS: 1 lock of the resource
-- ARGV: 1 what is written down, 2 era, 3 count: the largest token that admitted nodes have shown, 4 and on: the holders
-- Returns: forced (how many of the holders had it) | other | exhausted | a refusal
-- Why the marker: an era may be raised only to one that a majority of this fleet has promised, which is so for
-- each era in which a node of it is. Why the holders: a holder that has come since keeps the lock. Why the count, also
-- where the lock is free: the holder's next renewal would set the lock again. To the protocol it is as if
-- another owner had got the next token, and had gone. Why exhausted comes first: where there is no next token nothing
-- could keep the holder out. Why no count where another holds it: that holder could not publish its token any more. Why the deletion
-- comes next: a server without memory left lets through what comes behind it.
local memory = redis.call('HMGET', MEMORY, 'admitted', 'nonce', 'era', COUNT, 'prepared', 'reserved', 'granted')
if memory[1] ~= MARKER or not memory[2] then return refusal() end
local era, count = tonumber(memory[3]), tonumber(memory[4] or '0')
local seen_era, seen = tonumber(ARGV[2]), tonumber(ARGV[3])
if seen_era > era or (seen_era == era and seen > count) then era, count = seen_era, seen end
count = count + 1
if count > 999999 then
  redis.pcall('HSET', MEMORY, 'full', 1)
  return {'exhausted'}
end
local holder, taken = redis.pcall('GET', KEYS[1]), 0
for place = 4, #ARGV do
  if type(holder) == 'table' then
    local gone = redis.pcall('ZREM', KEYS[1], ARGV[place])
    if type(gone) == 'number' then taken = taken + gone end
  elseif holder == ARGV[place] then
    taken = redis.call('DEL', KEYS[1])
  end
end
local rest = lock()
if type(rest) == 'string' then return {'other'} end
local is_free = not rest or rest.owners == 0
if taken == 0 and not is_free then return {'other'} end
raise(memory, era, count)
if not memory[7] then redis.pcall('HSET', MEMORY, 'granted', 1) end
if taken == 0 then return {'forced', 0} end
if is_free then
  if rest then redis.call('PEXPIRE', KEYS[1], rest.drains) end
  redis.call('ZREM', LONG, KEYS[1])
  notify(KEYS[1])
else
  redis.pcall('ZADD', LONG, 'XX', clock() + rest.left, KEYS[1])
end
note(ARGV[1])
return {'forced', taken}
