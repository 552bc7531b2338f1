-- Read the mark of a resource.
-- KEYS: 1 marks (hash)
-- ARGV: 1 life of the server, 2 field of the mark
-- Returns: mark value | floor value, where there is no mark | never-opened | other-life. The value is empty if there is none.
local memory = redis.call('HMGET', KEYS[1], 'life', ARGV[2], 'floor')
if not memory[1] then return {'never-opened'} end
if memory[1] ~= ARGV[1] then return {'other-life'} end
if memory[2] then return {'mark', memory[2]} end
return {'floor', memory[3] or ''}
