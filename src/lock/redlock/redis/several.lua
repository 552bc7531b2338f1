-- Do the same for several locks, in one step. `one` is the script that does it for one of them.
-- KEYS: the lock of each resource
-- ARGV: the arguments of each lock, as many for each, then the number of the request
-- Returns: number several and the answer of each
local count, width = #KEYS, (#ARGV - 1) / #KEYS
local function of(place)
  local keys, args = {KEYS[place]}, {}
  for part = 1, width do args[part] = ARGV[(place - 1) * width + part] end
  return keys, args
end
local function each()
  local answers = {tonumber(ARGV[#ARGV]), 'several'}
  for place = 1, count do answers[2 + place] = one(of(place)) end
  return answers
end
