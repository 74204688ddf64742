-- Forgets all keys.
-- Index: none. Lock: the write lock.
DELETE FROM known_keys;
