-- Tells the client that has waited longest that the lock is free, and returns its name: a hint. Without the
-- right to publish, nobody is told. A client that is gone hears nothing, and the next one is told.
-- The one who was told has a head start: whoever comes meanwhile is not told that the lock is free.
local function tell(waiting, told, channel, resource)
  for _ = 1, 16 do
    local first = redis.pcall('ZRANGE', waiting, 0, 0)
    if first.err or not first[1] then return end
    local client, ticket = string.match(first[1], '^(%x+) (%d+)$')
    local heard = client and redis.pcall('PUBLISH', channel .. client, ticket .. ' ' .. resource)
    if type(heard) == 'table' then return end
    redis.pcall('ZREM', waiting, first[1])
    if heard and heard > 0 then
      redis.pcall('SET', told, client, 'PX', 50)
      return client
    end
  end
end
