-- Replaces what is sealed of a source by the same, sealed otherwise, unless somebody changed it.
-- Index: the primary key. Lock: the write lock.
UPDATE sources SET secrets = ?2, verify_token = ?3
WHERE id = ?1 AND secrets = ?4 AND verify_token IS ?5;
