-- Notes until when a lock may be out. A long one is noted by itself, so that its release ends it;
-- for the others the latest end will do, an eighth too late, or each grant would write it again.
-- Without memory left for writes an expiry can still be moved.
-- noted: the value of latest, if it was read: a key lasts no longer than the milliseconds in it.
local function outlast(ttl, noted)
  if ttl > 60000 then
    local now = clock()
    redis.pcall('ZREMRANGEBYSCORE', KEYS[4], '-inf', now)
    if type(redis.pcall('ZADD', KEYS[4], now + ttl, KEYS[5])) == 'number' then return end
  end
  if noted == nil then noted = redis.call('GET', KEYS[3]) end
  if (tonumber(noted or '0') or 0) >= ttl and redis.call('PTTL', KEYS[3]) >= ttl then return end
  local until_then = ttl + math.ceil(ttl / 8)
  local set = redis.pcall('SET', KEYS[3], until_then, 'PX', until_then)
  if set.err then redis.call('PEXPIRE', KEYS[3], until_then) end
end
