-- Keeps up to where the deliveries of an erased event are done.
-- Index: the primary key. Lock: the write lock.
INSERT INTO unfinished_erasures (event_id, done_until, at) VALUES (?1, ?2, ?3)
ON CONFLICT (event_id) DO UPDATE SET done_until = excluded.done_until;
