-- Was an event's data erased?
-- Index: the primary key. Lock: none.
SELECT EXISTS (SELECT 1 FROM events WHERE id = $1 AND erased_at IS NOT NULL) AS is_erased;
