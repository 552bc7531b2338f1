-- Do the same for several locks, in one step. `one` is the script that does it for one of them.
-- KEYS: 1 memory (hash), 2 quarantine, 3 latest, 4 long (sorted set), 5 and on: the lock of each resource
-- ARGV: 1 marker of the session, 2 how many arguments each lock has, 3 and on: these, then the number of
-- the request
-- Returns: number several and the answer of each
local count, width = #KEYS - 4, tonumber(ARGV[2])
local function of(place)
  local keys, args = {KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[4 + place]}, {ARGV[1]}
  for part = 1, width do args[1 + part] = ARGV[2 + (place - 1) * width + part] end
  return keys, args
end
local function each()
  local answers = {ARGV[#ARGV], 'several'}
  for place = 1, count do answers[2 + place] = one(of(place)) end
  return answers
end
