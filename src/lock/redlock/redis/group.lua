-- Release, lock and renew exclusive locks: several in one step, each decided separately.
-- KEYS: the locks to release, to acquire, and to renew
-- ARGV: 1 the number of releases, 2 the number of acquires, 3 the ttl in ms of all renewals, 4 and on: for a release the
-- owner; for an acquire owner and ttl in ms; for a renewal owner, and era and count of the lease as one text; then the
-- number of the request
-- Returns: number, era and nonce for the acquires, and for each lock in short 1 (released, renewed) or the count that was granted, below zero
-- where the node keeps too many; or what its own script answers, or failed and why
-- Why in short: the state of the node is read once for all locks, and one command changes several of them. Any lock that
-- needs more is judged by its own script, after the others of its kind.
local call, releases, acquires = redis.call, tonumber(ARGV[1]), tonumber(ARGV[2])
local is_needed, argument = #KEYS > releases, 4
local function judge(own, key, ...)
  local done, answer = pcall(own, {key}, {...})
  if done then return answer end
  return {'failed', type(answer) == 'table' and answer.err or tostring(answer)}
end
local fields = {'admitted', 'nonce', 'era', 'granted'}
for place = 1, acquires do fields[4 + place] = 'c:' .. string.sub(KEYS[releases + place], NAME) end
local memory = call('HMGET', MEMORY, unpack(fields))
local is_ours = memory[1] == MARKER and memory[2] and memory[4]
local answers = {tonumber(ARGV[#ARGV]), tonumber(memory[3] or 0), acquires > 0 and memory[2]}
-- The longest ttl that needs no note of its own: none where the node is not admitted, or closed.
local noted = 0
if is_ours and is_needed then
  local kept = redis.pcall('MGET', QUARANTINE, LATEST)
  if kept[2] and not kept[1] then noted = math.min(call('PTTL', LATEST), tonumber(kept[2]) or 0) end
end
if releases > 0 then
  local waited, gone, at = {LONG}, {}, 0
  for place = 1, releases do waited[1 + place] = WAITING .. string.sub(KEYS[place], NAME) end
  if is_ours and redis.pcall('EXISTS', unpack(waited)) == 0 then
    local holders = redis.pcall('MGET', unpack(KEYS, 1, releases))
    for place = 1, releases do
      if holders[place] == ARGV[3 + place] then
        at = at + 1
        gone[at] = KEYS[place]
        answers[3 + place] = 1
      end
    end
  end
  if at > 0 then call('DEL', unpack(gone)) end
  for place = 1, at < releases and releases or 0 do
    answers[3 + place] = answers[3 + place] or judge(release, KEYS[place], ARGV[3 + place])
  end
  argument = argument + releases
end
if acquires > 0 then
  local counts, at = {}, 0
  for place = releases + 1, releases + acquires do
    local field, count = fields[4 + place - releases], memory[4 + place - releases]
    local next = tonumber(count or '0') + 1
    local ttl = ARGV[argument + 1]
    local set = noted >= tonumber(ttl) and next <= 999999
      and redis.pcall('SET', KEYS[place], ARGV[argument], 'PX', ttl, 'NX')
    if set and not set.err then
      counts[at + 1], counts[at + 2], at = field, next, at + 2
      if not count and call('HLEN', MEMORY) >= 100000 then next = -next end
      answers[3 + place] = next
    end
    argument = argument + 2
  end
  if at > 0 then call('HSET', MEMORY, unpack(counts)) end
  for place = releases + 1, at < 2 * acquires and releases + acquires or 0 do
    local from = argument + 2 * (place - releases - acquires - 1)
    answers[3 + place] = answers[3 + place] or judge(acquire, KEYS[place], ARGV[from], ARGV[from + 1])
  end
end
if #KEYS > releases + acquires then
  local ttl = ARGV[3]
  local holders = noted >= tonumber(ttl) and redis.pcall('MGET', unpack(KEYS, releases + acquires + 1)) or {}
  for place = releases + acquires + 1, #KEYS do
    local owner = ARGV[argument]
    if holders[place - releases - acquires] == owner then
      call('PEXPIRE', KEYS[place], ttl)
      answers[3 + place] = 1
    else
      local era, count = string.match(ARGV[argument + 1], '(%d+) (%d+)')
      answers[3 + place] = judge(renew, KEYS[place], owner, ttl, era, count)
    end
    argument = argument + 2
  end
end
return answers
