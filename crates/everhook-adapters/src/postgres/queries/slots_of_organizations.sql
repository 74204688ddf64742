-- Who holds slots of these organizations, and what time is it for the server? Asked while their rows of `budgets` are locked.
-- Index: the primary key. Lock: none.
SELECT clock.store_time, s.organization_id, s.holder, s.held, s.wanted, s.held_until
FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS store_time) clock
LEFT JOIN budget_slots s ON s.organization_id = ANY($1);
