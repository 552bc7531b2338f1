-- Keep new owners from sharing a lock, because somebody waits to hold it alone.
-- KEYS: 1 lock of the resource
-- ARGV: 1 for how long in ms
-- Returns: draining | a refusal
-- Why: the one who waits would never find the lock free. The holders that share it may still renew. Why `drained`: where one
-- of them stays, clients that wait again and again would keep others out for ever. After 20 s others may join for as long.
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
