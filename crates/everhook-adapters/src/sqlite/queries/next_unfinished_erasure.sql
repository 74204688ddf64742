-- Up to where are the deliveries of an erased event (any event, if none is named) done?
-- Index: the primary key. Lock: the write lock, taken by the caller.
SELECT event_id, done_until, at FROM unfinished_erasures WHERE ?1 IS NULL OR event_id = ?1 ORDER BY event_id LIMIT 1;
