-- When was the oldest event accepted?
-- Index: the primary key. Lock: none, a snapshot.
SELECT created_at FROM events ORDER BY id LIMIT 1;
