-- Compare a token with the mark of its resource, raise the mark, and write, in one step.
-- KEYS: 1 marks (hash), and for a write 2 the key that it writes
-- ARGV: 1 life of the server, 2 field of the mark, 3 token, 4 the type that the key must have if it is there (or
--   empty), 5 the command (or empty), 6.. its arguments behind the key
-- Returns: passed number | stale highest | never-opened | other-life | corrupt mark | corrupt-floor floor | wrong-type type
-- Why the mark first: a script that fails in its middle takes nothing back. A mark that is too high refuses; a
-- write without its mark would let an older one land after it.
-- Why an equal mark is written again where nothing else is: a server that has become a replica refuses to.
-- Why another life is recorded as closed: the server of that life may become a replica of this one, and then a
--   master again. It would trust these marks because they name its life, although they are older than its own.
-- Why text: a token has fifteen digits, which a double holds exactly, but which tostring rounds to fourteen.
local memory = redis.call('HMGET', KEYS[1], 'life', 'floor', ARGV[2])
if not memory[1] then return {'never-opened'} end
if memory[1] ~= ARGV[1] then
  if string.sub(memory[1], 1, 7) ~= 'closed:' then
    redis.call('HSET', KEYS[1], 'life', 'closed:' .. memory[1])
  end
  return {'other-life'}
end
local function number(text)
  if not text then return 0 end
  return #text <= 15 and string.match(text, '^[1-9]%d*$') and tonumber(text)
end
local floor, mark = number(memory[2]), number(memory[3])
if not floor then return {'corrupt-floor', memory[2]} end
if not mark then return {'corrupt', memory[3]} end
local token, highest = tonumber(ARGV[3]), math.max(floor, mark)
if token < highest then return {'stale', string.format('%.0f', highest)} end
if ARGV[4] ~= '' then
  local found = redis.call('TYPE', KEYS[2]).ok
  if found ~= 'none' and found ~= ARGV[4] then return {'wrong-type', found} end
end
if token > mark or ARGV[5] == '' then redis.call('HSET', KEYS[1], ARGV[2], ARGV[3]) end
if ARGV[5] == '' then return {'passed', 0} end
local written = redis.call(ARGV[5], KEYS[2], unpack(ARGV, 6))
return {'passed', type(written) == 'number' and written or 0}
