-- Renew many locks, one after another, as renew does each.
-- KEYS: 1 memory (hash), 2 quarantine, 3 latest, 4 long (sorted set), then the locks
-- ARGV: 1 marker of the session, then for each lock 2 to 6 of renew, and the number of the request
-- Returns: the number, and the answer of each
local answers = {ARGV[#ARGV]}
for lock = 1, #KEYS - 4 do
  local first = 5 * lock - 3
  answers[lock + 1] = renew({KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[4 + lock]},
    {ARGV[1], ARGV[first], ARGV[first + 1], ARGV[first + 2], ARGV[first + 3], ARGV[first + 4]})
end
return answers
