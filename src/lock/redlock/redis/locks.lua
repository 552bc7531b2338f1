-- Report to an operator how locks stand.
-- KEYS: 1 memory (hash), 2 and on: the locks
-- ARGV: the field of each lock's count
-- Returns: the era, then for each lock: nothing | alone count holder ms | shared count (holder ms)...
-- Why no marker: it only reads, and an operator may ask any node.
local era = redis.call('HGET', KEYS[1], 'era') or ''
local time = redis.call('TIME')
local now, answers = time[1] * 1000 + math.floor(time[2] / 1000), {era}
for place = 2, #KEYS do
  local answer, holder = {}, redis.pcall('GET', KEYS[place])
  local count = redis.call('HGET', KEYS[1], ARGV[place - 1]) or ''
  if type(holder) == 'string' then
    answer = {'alone', count, holder, redis.call('PTTL', KEYS[place])}
  elseif type(holder) == 'table' then
    local parts = redis.pcall('ZRANGE', KEYS[place], 0, 9999, 'WITHSCORES')
    answer = {'shared', count}
    for part = 1, parts.err and 0 or #parts, 2 do
      if parts[part] ~= 'draining' then
        answer[#answer + 1] = parts[part]
        answer[#answer + 1] = parts[part + 1] - now
      end
    end
  end
  answers[place] = answer
end
return answers
