-- Notifies the longest waiter that the lock is free, and returns its name. Without the right to publish, no client is
-- notified. If the client is gone, the next one is notified.
-- The notified client has a head start: a client that arrives meanwhile does not learn that the lock is free.
local function notify(lock)
  local resource = string.sub(lock, NAME)
  local waiting = WAITING .. resource
  for _ = 1, 16 do
    local first = redis.pcall('ZRANGE', waiting, 0, 0)
    if first.err or not first[1] then return end
    local client, ticket = string.match(first[1], '^(%x+) (%d+)$')
    local received = client and redis.pcall('PUBLISH', CHANNEL .. client, ticket .. ' ' .. resource)
    if type(received) == 'table' then return end
    redis.pcall('ZREM', waiting, first[1])
    if received and received > 0 then
      redis.pcall('SET', NOTIFIED .. resource, client, 'PX', 50)
      return client
    end
  end
end
