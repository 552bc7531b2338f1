-- Take a lock from the holders that an operator has seen, and write that down.
-- KEYS: 1 memory (hash), 2 quarantine, 3 latest, 4 long (sorted set), 5 lock of the resource, 6 audit (sorted set)
-- ARGV: 1 marker of the session, 2 what is written down, 3 the resource, 4 field of the count, 5 key of the
-- waiters, 6 key of who was notified, 7 what the channels begin with, 8 era, 9 count: the largest token that admitted
-- nodes have shown, 10 and on: the holders
-- Returns: forced (how many of the holders had it) | other | exhausted | a refusal
-- Why the marker: an era may be raised only to one that a majority of this fleet has promised, which is so for
-- each era in which a node of it is. Why the holders: a holder that has come since keeps the lock. Why the count, also
-- where the lock is free: the holder's next renewal would set the lock again. To the protocol it is as if
-- another owner had got the next token, and had gone. Why exhausted comes first: where there is no next token nothing
-- could keep the holder out. Why no count where another holds it: that holder could not publish its token any more. Why the deletion
-- comes next: a server without memory left lets through what comes behind it.
local memory = redis.call('HMGET', KEYS[1], 'admitted', 'nonce', 'era', ARGV[4], 'prepared', 'reserved', 'granted')
if memory[1] ~= ARGV[1] or not memory[2] then return refusal() end
local era, count = tonumber(memory[3]), tonumber(memory[4] or '0')
local seen_era, seen = tonumber(ARGV[8]), tonumber(ARGV[9])
if seen_era > era or (seen_era == era and seen > count) then era, count = seen_era, seen end
count = count + 1
if count > 999999 then
  redis.pcall('HSET', KEYS[1], 'full', 1)
  return {'exhausted'}
end
local holder, taken = redis.pcall('GET', KEYS[5]), 0
for place = 10, #ARGV do
  if type(holder) == 'table' then
    local gone = redis.pcall('ZREM', KEYS[5], ARGV[place])
    if type(gone) == 'number' then taken = taken + gone end
  elseif holder == ARGV[place] then
    taken = redis.call('DEL', KEYS[5])
  end
end
local rest = lock()
if type(rest) == 'string' then return {'other'} end
local is_free = not rest or rest.owners == 0
if taken == 0 and not is_free then return {'other'} end
raise(memory, era, count)
if not memory[7] then redis.pcall('HSET', KEYS[1], 'granted', 1) end
if taken == 0 then return {'forced', 0} end
if is_free then
  if rest then redis.call('PEXPIRE', KEYS[5], rest.drains) end
  redis.call('ZREM', KEYS[4], KEYS[5])
  notify(ARGV[5], ARGV[6], ARGV[7], ARGV[3])
else
  redis.pcall('ZADD', KEYS[4], 'XX', clock() + rest.left, KEYS[5])
end
note(KEYS[6], ARGV[2])
return {'forced', taken}
