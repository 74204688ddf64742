-- Forgets a key.
-- Index: none, a few thousand rows at most are looked through, when a key is revoked. Lock: the write lock.
DELETE FROM known_keys WHERE id = ?1;
