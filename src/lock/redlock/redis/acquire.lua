-- Lock a resource for an owner if it is free, and count.
-- KEYS: 1 memory (hash), 2 quarantine, 3 latest, 4 long (sorted set), 5 lock of the resource
-- ARGV: 1 marker of the session, 2 owner, 3 ttl in ms, 4 field of the count
-- Returns: granted era count nonce crowded | held ms | quarantined ms | exhausted | a refusal
-- Why the marker: a node that forgot, came back from an old copy, or belongs to another fleet
-- must not vote. Why it looks whether the node is crowded only with a new count: only that makes it
-- more crowded.
local memory = redis.call('HMGET', KEYS[1], 'admitted', 'nonce', 'era', 'granted', ARGV[4])
if memory[1] ~= ARGV[1] or not memory[2] then return refusal() end
local seen = redis.call('MGET', KEYS[2], KEYS[5], KEYS[3])
if seen[1] then return {'quarantined', redis.call('PTTL', KEYS[2])} end
local era, count = tonumber(memory[3]), tonumber(memory[5] or '0')
local function crowded() return redis.call('HLEN', KEYS[1]) >= 100000 and 1 or 0 end
if seen[2] == ARGV[2] then return {'granted', era, count, memory[2], crowded()} end
if seen[2] then return {'held', redis.call('PTTL', KEYS[5])} end
if count >= 999999 then
  redis.call('HSET', KEYS[1], 'full', 1)
  return {'exhausted'}
end
local is_crowded = memory[5] and 0 or crowded()
-- What is no string is no lock of ours, and closes the resource all the same.
if not redis.call('SET', KEYS[5], ARGV[2], 'NX', 'PX', ARGV[3]) then return {'held', redis.call('PTTL', KEYS[5])} end
redis.call('HSET', KEYS[1], ARGV[4], count + 1)
if not memory[4] then redis.call('HSET', KEYS[1], 'granted', 1) end
outlast(tonumber(ARGV[3]), seen[3])
return {'granted', era, count + 1, memory[2], is_crowded}
