-- Say to an operator how the marks stand.
-- KEYS: 1 marks (hash)
-- Returns: found life floor marks. Life and floor are empty if there is none.
local memory = redis.call('HMGET', KEYS[1], 'life', 'floor')
local marks = redis.call('HLEN', KEYS[1]) - (memory[1] and 1 or 0) - (memory[2] and 1 or 0)
return {'found', memory[1] or '', memory[2] or '', marks}
