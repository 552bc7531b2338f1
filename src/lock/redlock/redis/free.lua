-- Whether a lock is free. A lock that was shared may still refuse new readers.
local function is_free(lock)
  if redis.call('EXISTS', lock) == 0 then return true end
  local members = redis.pcall('ZCARD', lock)
  if type(members) ~= 'number' then return false end
  for _, member in ipairs({'draining', 'drained'}) do
    if redis.call('ZSCORE', lock, member) then members = members - 1 end
  end
  return members == 0
end
