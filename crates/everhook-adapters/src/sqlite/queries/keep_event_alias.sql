-- Makes an id another name of an event; nothing if it is one already.
-- Index: the primary key. Lock: the write lock.
INSERT INTO event_aliases (alias, event_id) VALUES (?1, ?2) ON CONFLICT (alias) DO NOTHING;
