-- Replaces an event's data by the same, sealed otherwise.
-- Index: the primary key. Lock: the write lock.
UPDATE payloads SET body = ?3 WHERE number = ?1 AND event_id = ?2 AND encoding >= 2;
