-- What every script shares. A script is the body of a function behind this.
-- KEYS: 1 memory (hash), 2 quarantine, 3 latest, 4 long (sorted set), and for a lock 5 lock of the resource
-- ARGV: 1 marker of the session: its run_id, a space, and its fleet
-- The memory belongs to a fleet in one life of the server: `admitted` is the marker under which
-- the node was admitted. A node that has left its fleet has `sealed_as`, the marker that it had,
-- and `sealed_to`, the new fleet, instead. In another life than the one written there it has
-- forgotten.
local run_id = string.match(ARGV[1], '^%S+')
local my_fleet = string.sub(ARGV[1], #run_id + 2)
local function fleet_of(marker)
  return string.sub(marker, #string.match(marker, '^%S+') + 2)
end
local function of_this_life(marker)
  return marker and string.match(marker, '^%S+') == run_id
end
-- Why the node refuses this session's fleet, if it does.
local function elsewhere()
  local place = redis.call('HMGET', KEYS[1], 'admitted', 'sealed_as', 'sealed_to')
  if of_this_life(place[1]) and fleet_of(place[1]) ~= my_fleet then return {'other-fleet', fleet_of(place[1])} end
  if of_this_life(place[2]) and place[3] ~= my_fleet then return {'moved', place[3]} end
end
local function refusal()
  return elsewhere() or {'not-admitted'}
end
-- How long a key lasts, but not longer than the milliseconds that are its value: the clock may have
-- been set back since.
local function lasts(key)
  return math.min(redis.call('PTTL', key), tonumber(redis.call('GET', key) or '0') or 0)
end
-- How long a lock that was granted or renewed here may still be out.
local function longest()
  local out = math.max(lasts(KEYS[2]), lasts(KEYS[3]), 0)
  local last = redis.call('ZREVRANGE', KEYS[4], 0, 0, 'WITHSCORES')
  return last[2] and math.max(out, last[2] - clock()) or out
end
