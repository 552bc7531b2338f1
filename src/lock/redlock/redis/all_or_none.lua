-- Grant several locks, or none of them: what comes between several.lua and its loop.
-- Returns: number several, and held ms holder, shared ms holder or free for each | number exhausted | what one lock is answered
local function in_the_way()
  -- This refuses each of them.
  if redis.call('HGET', MEMORY, 'admitted') ~= MARKER or redis.call('PTTL', QUARANTINE) ~= -2 then
    return one(of(1))
  end
  local answers, is_held = {'several'}, false
  for place = 1, count do
    local keys, args = of(place)
    local holder = holder_of(keys, args)
    answers[1 + place] = {'free'}
    if type(holder) == 'table' and holder.owners == 0 then holder = nil end
    if type(holder) == 'table' then
      answers[1 + place] = {'shared', holder.left, string.sub(holder.last, 1, 128)}
      is_held = true
    elseif holder and holder ~= args[1] then
      answers[1 + place] = {'held', redis.call('PTTL', keys[1]), string.sub(holder, 1, 128)}
      is_held = true
    elseif not holder and tonumber(redis.call('HGET', MEMORY, 'c:' .. string.sub(keys[1], NAME)) or '0') >= 999999 then
      redis.call('HSET', MEMORY, 'full', 1)
      return {'exhausted'}
    end
  end
  return is_held and answers
end
local against = in_the_way()
if against then
  table.insert(against, 1, tonumber(ARGV[#ARGV]))
  return against
end
