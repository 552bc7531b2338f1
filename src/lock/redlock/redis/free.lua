-- Whether nobody holds a lock. One that others shared may still be closed to more of them.
local function is_free(lock)
  if redis.call('EXISTS', lock) == 0 then return true end
  local members = redis.pcall('ZCARD', lock)
  return members == 1 and redis.call('ZSCORE', lock, 'draining') ~= false
end
