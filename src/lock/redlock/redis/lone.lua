-- A single release or acquire, in the usual case: decided as in group.lua, without lists and before any function is
-- made. The rest goes to group.lua. KEYS, ARGV: those of group.lua
-- Returns: number released | number granted era count nonce, as one text: a list costs more than a command
if #KEYS == 1 and ARGV[1] == '1' then
  if redis.call('HGET', MEMORY, 'admitted') == MARKER
    and redis.pcall('EXISTS', LONG, WAITING .. string.sub(KEYS[1], NAME)) == 0
    and redis.pcall('GET', KEYS[1]) == ARGV[4] then
    redis.call('DEL', KEYS[1])
    return ARGV[5] .. ' released'
  end
elseif #KEYS == 1 and ARGV[2] == '1' then
  local field, ttl = 'c:' .. string.sub(KEYS[1], NAME), ARGV[5]
  local memory = redis.call('HMGET', MEMORY, 'admitted', 'nonce', 'era', 'granted', field)
  local kept = memory[1] == MARKER and memory[2] and memory[4] and memory[5] and redis.pcall('MGET', QUARANTINE, LATEST)
  if kept and kept[2] and not kept[1] and tonumber(kept[2]) >= tonumber(ttl)
    and redis.call('PTTL', LATEST) >= tonumber(ttl) and tonumber(memory[5]) < 999999 then
    local set = redis.pcall('SET', KEYS[1], ARGV[4], 'PX', ttl, 'NX')
    if set and not set.err then
      redis.call('HSET', MEMORY, field, memory[5] + 1)
      return ARGV[6] .. ' granted ' .. memory[3] .. ' ' .. memory[5] + 1 .. ' ' .. memory[2]
    end
  end
end
