-- Take a lock from the holders that an operator has seen, and write that down.
-- KEYS: 1 lock of the resource
-- ARGV: 1 what is written down, 2 era, 3 count: the largest token that admitted nodes have shown, 4 and on: the holders
-- Returns: forced (how many of the holders had it) | other | exhausted | a refusal
-- Why the marker: an era may be raised only to one that a majority of this fleet has promised; each era of an admitted
-- node is one. Why the holders: a client that has acquired the lock since keeps it. Why the count is raised even if the
-- lock is free: otherwise the holder's next renewal would set the lock again; to the protocol another owner had the
-- next token. Why exhausted comes first: without a next token nothing could keep the holder out. Why the count stays if
-- another client holds the lock: that client could not publish its token any more. Why the deletion comes next: after
-- it a server out of memory permits the other writes.
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
