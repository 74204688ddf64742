-- Keeps an event's data.
-- Index: the primary key. Lock: the write lock.
INSERT INTO payloads (event_id, encoding, body) VALUES (?1, ?2, ?3);
