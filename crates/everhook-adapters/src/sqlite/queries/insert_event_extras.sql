-- Keeps an event's labels and headers.
-- Index: the primary key. Lock: the write lock.
INSERT INTO event_extras (event_id, labels, headers) VALUES (?1, ?2, ?3);
