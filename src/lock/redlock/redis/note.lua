-- Records what an operator did, in order of time, and keeps the last 1000 lines. Writes nothing on a server out of
-- memory, or if the key has another type.
local function note(line)
  local millis = string.format('%.0f', clock())
  redis.pcall('ZADD', AUDIT, millis, millis .. ' ' .. line)
  for _ = 1, 8 do
    local lines = redis.pcall('ZCARD', AUDIT)
    if type(lines) ~= 'number' or lines <= 1000 then return end
    redis.call('ZREM', AUDIT, redis.call('ZRANGE', AUDIT, 0, 0)[1])
  end
end
