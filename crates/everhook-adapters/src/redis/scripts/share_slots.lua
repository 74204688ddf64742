-- Divides slots among the nodes that share them, as the core's `policy/shared_slots.rs` says.
-- KEYS: an organization's holders each, a hash of "held wanted until".
-- ARGV: the holder that asks, for how many microseconds slots are held, how long a slice is; then three for each key: limit, bound, wanted.
-- Answers one number for each key: how many requests the holder may have under way from now on.
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
local holder, held_for = ARGV[1], tonumber(ARGV[2])
local slice = math.floor(now / tonumber(ARGV[3]))

-- Whoever wants less than an even share gets that, and the others share the rest. What cannot be divided goes round.
local function fair_share(rows, limit)
  table.sort(rows, function(a, b)
    if a.wanted ~= b.wanted then return a.wanted < b.wanted end
    return a.holder < b.holder
  end)
  local left = limit
  for place, row in ipairs(rows) do
    local sharers = #rows - place + 1
    local even = math.floor(left / sharers)
    if row.wanted > even then
      local position = 0
      for other = place, #rows do
        if rows[other].holder < holder then position = position + 1 end
      end
      if (position + slice) % sharers < left % sharers then return even + 1 end
      return even
    end
    if row.holder == holder then return row.wanted end
    left = left - row.wanted
  end
  return 0
end

local answers = {}
for place, key in ipairs(KEYS) do
  local first = 3 + (place - 1) * 3
  local limit, bound, wanted = tonumber(ARGV[first + 1]), tonumber(ARGV[first + 2]), tonumber(ARGV[first + 3])
  local rows, held_by_others = { { holder = holder, wanted = wanted } }, 0
  local kept = redis.call('HGETALL', key)
  for index = 1, #kept, 2 do
    local held, wants, held_until = string.match(kept[index + 1], '^(%d+) (%d+) (%d+)$')
    if not held or tonumber(held_until) <= now then
      redis.call('HDEL', key, kept[index])
    elseif kept[index] ~= holder then
      -- The clock was set back: nobody holds anything for longer than from now on.
      if tonumber(held_until) > now + held_for then
        redis.call('HSET', key, kept[index], string.format('%s %s %.0f', held, wants, now + held_for))
      end
      rows[#rows + 1] = { holder = kept[index], wanted = tonumber(wants) }
      held_by_others = held_by_others + tonumber(held)
    end
  end
  local free = math.max(0, limit - held_by_others)
  local allowed = math.min(fair_share(rows, limit), free, wanted)
  local held = math.max(allowed, bound)
  if held == 0 and wanted == 0 then
    redis.call('HDEL', key, holder)
  else
    redis.call('HSET', key, holder, string.format('%.0f %.0f %.0f', held, wanted, now + held_for))
    redis.call('PEXPIRE', key, string.format('%.0f', held_for / 1000))
  end
  answers[#answers + 1] = allowed
end
return answers
