-- Report to an operator how locks stand.
-- KEYS: 1 memory (hash), 2 and on: the locks
-- ARGV: 1 how many of those who share a lock are named, 2 and on: the field of each lock's count
-- Returns: what the node is admitted as, the era, then for each lock: free count | alone count 1 holder ms | shared
-- count owners (holder ms)...
-- Why no marker: it only reads. Whoever acts on the answer compares the marker.
local memory = redis.call('HMGET', KEYS[1], 'admitted', 'era')
local time = redis.call('TIME')
local now, answers = time[1] * 1000 + math.floor(time[2] / 1000), {memory[1] or '', memory[2] or ''}
for place = 2, #KEYS do
  local count = redis.call('HGET', KEYS[1], ARGV[place]) or '0'
  local answer, holder = {'free', count}, redis.pcall('GET', KEYS[place])
  if type(holder) == 'string' then
    answer = {'alone', count, 1, holder, redis.call('PTTL', KEYS[place])}
  elseif type(holder) == 'table' then
    -- Parts that have ended stand there until somebody asks for the lock. One more, as one may be no owner.
    local parts = redis.pcall('ZRANGEBYSCORE', KEYS[place], '(' .. now, '+inf', 'WITHSCORES', 'LIMIT', 0, ARGV[1] + 1)
    local owners = redis.pcall('ZCOUNT', KEYS[place], '(' .. now, '+inf')
    if not parts.err and type(owners) == 'number' then
      local drains = redis.call('ZSCORE', KEYS[place], 'draining')
      if drains and tonumber(drains) > now then owners = owners - 1 end
      answer = {'shared', count, owners}
      for part = 1, #parts, 2 do
        if parts[part] ~= 'draining' and #answer < 3 + 2 * ARGV[1] then
          answer[#answer + 1] = parts[part]
          answer[#answer + 1] = parts[part + 1] - now
        end
      end
    end
  end
  answers[place + 1] = answer
end
return answers
