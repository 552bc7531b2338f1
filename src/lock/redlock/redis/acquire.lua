-- Lock a resource for an owner if it is free, and count.
-- KEYS: 1 lock of the resource
-- ARGV: 1 owner, 2 ttl in ms
-- Returns: granted era count nonce crowded | held ms holder | shared ms holder | quarantined ms | exhausted | a refusal
-- Why the marker: a node that forgot, came back from an old copy, or belongs to another fleet must not vote. Why pcall:
-- a server without memory left refuses the SET before it looks, and the lock may be held all the same.
local memory = redis.call('HMGET', MEMORY, 'admitted', 'nonce', 'era', 'granted', COUNT)
if memory[1] ~= MARKER or not memory[2] then return refusal() end
local closed = redis.call('PTTL', QUARANTINE)
if closed ~= -2 then return {'quarantined', closed} end
local era, count = tonumber(memory[3]), tonumber(memory[5] or '0')
local crowded = redis.call('HLEN', MEMORY) >= 100000 and 1 or 0
local exhausted = count >= 999999
local set = not exhausted and redis.pcall('SET', KEYS[1], ARGV[1], 'PX', ARGV[2], 'NX')
if not set or set.err then
  local holder = lock()
  if holder == ARGV[1] then return {'granted', era, count, memory[2], crowded} end
  if type(holder) == 'table' then
    if holder.owners > 0 then return {'shared', holder.left, string.sub(holder.last, 1, 128)} end
  elseif holder then
    return {'held', redis.call('PTTL', KEYS[1]), string.sub(holder, 1, 128)}
  end
  if exhausted then
    redis.call('HSET', MEMORY, 'full', 1)
    return {'exhausted'}
  end
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
end
redis.call('HSET', MEMORY, COUNT, count + 1)
if not memory[4] then redis.call('HSET', MEMORY, 'granted', 1) end
extend_latest(tonumber(ARGV[2]))
return {'granted', era, count + 1, memory[2], crowded}
