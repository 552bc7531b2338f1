-- Report to an operator the state of locks.
-- KEYS: the locks
-- ARGV: 1 how many holders of a shared lock are named
-- Returns: what the node is admitted as, the era, and for each lock: free, alone or shared, count owners (holder ms...)
-- Why not by scores: users of the library have no right to ZRANGEBYSCORE. What is not a lock
-- of ours is reported as one without a holder.
-- Why no marker: it only reads. A client that acts on the answer compares the marker.
local memory = redis.call('HMGET', MEMORY, 'admitted', 'era')
local time = redis.call('TIME')
local now, answers = time[1] * 1000 + math.floor(time[2] / 1000), {}
for place = 1, #KEYS do
  local count = redis.call('HGET', MEMORY, 'c:' .. string.sub(KEYS[place], NAME)) or '0'
  local answer, holder = {'free', count, 0, {}}, redis.pcall('GET', KEYS[place])
  if type(holder) == 'string' then
    answer = {'alone', count, 1, {holder, redis.call('PTTL', KEYS[place])}}
  elseif type(holder) == 'table' then
    -- The latest end comes first. Ended parts stay until a client asks for the lock.
    local parts, owners, named = redis.pcall('ZREVRANGE', KEYS[place], 0, 100000, 'WITHSCORES'), 0, {}
    if parts.err then
      if not string.find(parts.err, 'WRONGTYPE') then return parts end
      parts, owners, named = {}, 1, {'', redis.call('PTTL', KEYS[place])}
    end
    for part = 1, #parts, 2 do
      local left = parts[part + 1] - now
      if left <= 0 then break end
      if parts[part] ~= 'draining' and parts[part] ~= 'drained' then
        owners = owners + 1
        if owners <= tonumber(ARGV[1]) then
          named[#named + 1] = parts[part]
          named[#named + 1] = left
        end
      end
    end
    answer = {parts[1] and 'shared' or 'alone', count, owners, named}
  end
  answers[place] = answer
end
return {memory[1] or '', memory[2] or '', answers}
