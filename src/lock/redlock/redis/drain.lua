-- Keep new owners from sharing a lock, because a writer waits.
-- KEYS: 1 lock of the resource
-- ARGV: 1 for how long in ms
-- Returns: draining | a refusal
-- Why: the writer would never find the lock free. Shared holders may still renew. Why `drained`: if one stays, repeated
-- writers would block readers for ever. After 20 s readers may join for as long.
if redis.call('HGET', MEMORY, 'admitted') ~= MARKER then return refusal() end
local holder, lasting = lock(), tonumber(ARGV[1])
if type(holder) == 'table' then
  local drained = redis.call('ZSCORE', KEYS[1], 'drained')
  local left = drained and drained - clock()
  if not left or left > 40000 then
    left = 40000
    write_part('drained', left)
  end
  lasting = math.min(lasting, left - 20000)
  if lasting > (holder.drains or 0) then write_part('draining', lasting) end
end
return {'draining'}
