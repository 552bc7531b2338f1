-- Keep new owners from sharing a lock, because somebody waits to hold it alone.
-- KEYS: 1 memory (hash), 2 quarantine, 3 latest, 4 long (sorted set), 5 lock of the resource
-- ARGV: 1 marker of the session, 2 for how long in ms
-- Returns: draining | a refusal
-- Why: the one who waits would never find the lock free. Those who share it may still renew.
if redis.call('HGET', KEYS[1], 'admitted') ~= ARGV[1] then return refusal() end
local holder, lasting = lock(), tonumber(ARGV[2])
if type(holder) == 'table' and (not holder.drains or holder.drains < lasting) then
  write_part('draining', lasting)
end
return {'draining'}
