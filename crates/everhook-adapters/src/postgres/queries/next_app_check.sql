-- When is the next health check of an app due?
-- Index: app_checks_by_turn. Lock: none.
SELECT next_at FROM app_checks ORDER BY next_at LIMIT 1;
