-- Return the state of the marks, for an operator. An opening in another life is marked as closed, as in admit.lua.
-- KEYS: 1 marks (hash)
-- ARGV: 1 life of the server
-- Returns: found life floor marks. Life and floor are empty if there is none.
local memory = redis.call('HMGET', KEYS[1], 'life', 'floor')
local marks = redis.call('HLEN', KEYS[1]) - (memory[1] and 1 or 0) - (memory[2] and 1 or 0)
local life = memory[1]
if life and life ~= ARGV[1] and string.sub(life, 1, 7) ~= 'closed:' then
  life = 'closed:' .. life
  redis.call('HSET', KEYS[1], 'life', life)
end
return {'found', life or '', memory[2] or '', marks}
