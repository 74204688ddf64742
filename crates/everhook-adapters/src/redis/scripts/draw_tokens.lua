-- Draws tokens of rates that several nodes share, as the core's `policy/shared_bucket.rs` says.
-- KEYS: a budget each, "parts as_of"; one that is not there is full.
-- ARGV, six for each key: parts of a token, tokens a period, burst, how many to take, how many to give back, and how many microseconds ahead (-1: the rest is owed).
-- Answers three numbers for each key: how many were granted, in how many microseconds the last is good, and in how many one more could be had.
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
local CLOCK_JITTER = 1000000
-- A budget that is full again need not be kept; a minute more costs nothing.
local KEPT_LONGER_MS = 60000

local answers = {}
for place, key in ipairs(KEYS) do
  local first = (place - 1) * 6
  local token, requests, burst = tonumber(ARGV[first + 1]), tonumber(ARGV[first + 2]), tonumber(ARGV[first + 3])
  local take, give_back, ahead = tonumber(ARGV[first + 4]), tonumber(ARGV[first + 5]), tonumber(ARGV[first + 6])
  local is_owed = ahead < 0
  local capacity = burst * token + math.min(requests, token) - 1

  local parts, as_of = burst * token, now
  local kept = redis.call('GET', key)
  local kept_parts, kept_as_of = string.match(kept or '', '^(-?%d+) (%d+)$')
  if kept_parts then
    parts, as_of = tonumber(kept_parts), tonumber(kept_as_of)
    if now + CLOCK_JITTER >= as_of then
      parts = math.min(capacity, parts + math.max(0, now - as_of) * requests)
      as_of = math.max(as_of, now)
    else
      as_of = now
    end
  end

  parts = math.min(capacity, parts + give_back * token)
  local lowest = is_owed and 0 or -ahead * requests
  local there = math.floor(math.max(0, parts - lowest) / token)
  local granted = math.min(take, there)
  if is_owed and there > 0 then granted = take end
  parts = parts - granted * token
  local good_in = 0
  if granted > 0 and not is_owed then good_in = math.ceil(math.max(0, -parts) / requests) end
  local next_in = math.ceil(math.max(0, token + lowest - parts) / requests)

  local full_in_ms = math.ceil((capacity - parts) / requests / 1000)
  redis.call('SET', key, string.format('%.0f %.0f', parts, as_of), 'PX', string.format('%.0f', full_in_ms + KEPT_LONGER_MS))
  answers[#answers + 1] = granted
  answers[#answers + 1] = good_in
  answers[#answers + 1] = next_in
end
return answers
