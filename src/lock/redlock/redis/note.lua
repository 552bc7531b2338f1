-- Writes down what an operator did, by when. The oldest of 1000 lines goes. A server without memory left writes
-- none, nor one where something else has that key.
local function note(line)
  local time = redis.call('TIME')
  local millis = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
  redis.pcall('ZADD', AUDIT, millis, millis .. ' ' .. line)
  for _ = 1, 8 do
    local lines = redis.pcall('ZCARD', AUDIT)
    if type(lines) ~= 'number' or lines <= 1000 then return end
    redis.call('ZREM', AUDIT, redis.call('ZRANGE', AUDIT, 0, 0)[1])
  end
end
