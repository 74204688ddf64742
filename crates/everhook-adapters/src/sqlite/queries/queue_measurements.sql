-- How many deliveries wait for an attempt, by priority, how many of them are due, and since when? At most so many are counted.
-- Index: waiting_by_lane, from its beginning. Lock: none.
SELECT count(*) FILTER (WHERE priority = 0) AS waiting_high, count(*) FILTER (WHERE priority = 1) AS waiting_normal,
    count(*) FILTER (WHERE priority = 2) AS waiting_low,
    count(*) FILTER (WHERE priority = 0 AND due_at <= ?1) AS due_high, count(*) FILTER (WHERE priority = 1 AND due_at <= ?1) AS due_normal,
    count(*) FILTER (WHERE priority = 2 AND due_at <= ?1) AS due_low, min(due_at) AS oldest_due_at
FROM (SELECT priority, due_at FROM deliveries INDEXED BY waiting_by_lane WHERE stage = 0 LIMIT ?2);
