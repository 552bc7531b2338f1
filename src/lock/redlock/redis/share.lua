-- Lock a resource in shared mode, if there is no exclusive holder and no waiting writer.
-- KEYS: 1 lock of the resource
-- ARGV: 1 owner, 2 ttl in ms
-- Returns: granted era count nonce crowded | held ms (holder) | quarantined ms | exhausted | a refusal
-- Why only the first is counted: shared holders get one token, and do not make each other stale. An exclusive holder
-- before them was counted, and has a smaller one. Why the next waiter is notified: it may share the lock as well; or
-- it is a writer, and the lock is free.
-- Why it looks up a score first: a user without the right to that must not get a part that nobody can release.
redis.call('ZSCORE', LONG, KEYS[1])
local memory = redis.call('HMGET', MEMORY, 'admitted', 'nonce', 'era', 'granted', COUNT)
if memory[1] ~= MARKER or not memory[2] then return refusal() end
local closed = redis.call('PTTL', QUARANTINE)
if closed ~= -2 then return {'quarantined', closed} end
local era, count = tonumber(memory[3]), tonumber(memory[5] or '0')
local crowded = redis.call('HLEN', MEMORY) >= 100000 and 1 or 0
local holder, joins, left = lock(), false, 0
if type(holder) == 'table' then
  if redis.call('ZSCORE', KEYS[1], ARGV[1]) then return {'granted', era, count, memory[2], crowded} end
  if holder.drains then
    if holder.owners == 0 then notify(KEYS[1]) end
    return {'held', holder.drains}
  end
  joins, left = count > 0, holder.left
elseif holder then
  return {'held', redis.call('PTTL', KEYS[1]), string.sub(holder, 1, 128)}
end
if not joins then
  if count >= 999999 then
    redis.call('HSET', MEMORY, 'full', 1)
    return {'exhausted'}
  end
  count = count + 1
  redis.call('HSET', MEMORY, COUNT, count)
end
if not memory[4] then redis.call('HSET', MEMORY, 'granted', 1) end
write_part(ARGV[1], tonumber(ARGV[2]))
extend_latest_of_part(left, tonumber(ARGV[2]))
notify(KEYS[1])
return {'granted', era, count, memory[2], crowded}
