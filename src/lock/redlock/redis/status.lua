-- Report the state of the node to an operator, whatever fleet it belongs to.
-- Returns: (admitted era sealed_as sealed_to full and other fields) quarantine longest counts clock, and the error of a
-- write that changes nothing. Quarantine -2: none.
-- The other fields are read only so that they are not taken for counts.
local write = redis.pcall('SET', MEMORY .. ':probe', '', 'XX') or {}
local fields = redis.call('HMGET', MEMORY, 'admitted', 'era', 'sealed_as', 'sealed_to', 'full', 'prepared', 'nonce',
  'reserved', 'granted', 'started', 'joining')
local counts = redis.call('HLEN', MEMORY)
for place = 1, #fields do counts = counts - (fields[place] and 1 or 0) end
return {fields, redis.call('PTTL', QUARANTINE), longest_lock(), counts, redis.call('TIME')[1], write.err or false}
