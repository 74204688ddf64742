-- Keeps an event's labels, headers and ordering key.
-- Index: the primary key. Lock: the write lock.
INSERT INTO event_extras (event_id, labels, headers, ordering_key) VALUES (?1, ?2, ?3, ?4);
