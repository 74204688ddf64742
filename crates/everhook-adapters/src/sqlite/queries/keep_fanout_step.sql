-- Keeps deliveries that a later commit makes.
-- Index: the primary key. Lock: the write lock.
INSERT INTO unfinished_fanouts (event_id, step, deliveries, made_at, waits_for) VALUES (?1, ?2, ?3, ?4, ?5);
