-- Writes down what an operator did, by when. The oldest of 1000 lines goes. A server without memory left writes
-- none, nor one where something else has that key.
local function note(audit, line)
  local time = redis.call('TIME')
  local millis = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
  redis.pcall('ZADD', audit, millis, millis .. ' ' .. line)
  for _ = 1, 8 do
    local lines = redis.pcall('ZCARD', audit)
    if type(lines) ~= 'number' or lines <= 1000 then return end
    redis.call('ZREM', audit, redis.call('ZRANGE', audit, 0, 0)[1])
  end
end
