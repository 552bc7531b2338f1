-- Report to an operator the state of locks.
-- KEYS: the locks
-- ARGV: 1 how many holders of a shared lock are named
-- Returns: what the node is admitted as, the era, then for each lock: free count | alone count 1 holder ms | shared
-- count owners (holder ms)...
-- Why not by scores: users of the library have no right to ZRANGEBYSCORE. What is not a lock
-- of ours is reported as one without a holder.
-- Why no marker: it only reads. A client that acts on the answer compares the marker.
local memory = redis.call('HMGET', MEMORY, 'admitted', 'era')
local time = redis.call('TIME')
local now, answers = time[1] * 1000 + math.floor(time[2] / 1000), {memory[1] or '', memory[2] or ''}
for place = 1, #KEYS do
  local count = redis.call('HGET', MEMORY, 'c:' .. string.sub(KEYS[place], NAME)) or '0'
  local answer, holder = {'free', count}, redis.pcall('GET', KEYS[place])
  if type(holder) == 'string' then
    answer = {'alone', count, 1, holder, redis.call('PTTL', KEYS[place])}
  elseif type(holder) == 'table' then
    -- The latest end comes first. Parts that have ended stand there until somebody asks for the lock.
    local parts, owners = redis.pcall('ZREVRANGE', KEYS[place], 0, 100000, 'WITHSCORES'), 0
    answer = {'shared', count, 0}
    if parts.err then
      if not string.find(parts.err, 'WRONGTYPE') then return parts end
      answer, parts = {'alone', count, 1, '', redis.call('PTTL', KEYS[place])}, {}
    end
    for part = 1, #parts, 2 do
      local left = parts[part + 1] - now
      if left <= 0 then break end
      if parts[part] ~= 'draining' and parts[part] ~= 'drained' then
        owners = owners + 1
        if owners <= tonumber(ARGV[1]) then
          answer[#answer + 1] = parts[part]
          answer[#answer + 1] = left
        end
      end
    end
    if answer[1] == 'shared' then answer[3] = owners end
  end
  answers[place + 2] = answer
end
return answers
