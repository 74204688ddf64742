-- Replaces what is sealed of an approval by the same, sealed otherwise, unless somebody changed it.
-- Index: the primary key. Lock: the write lock.
UPDATE approvals SET call = ?2, data = ?3
WHERE id = ?1 AND call IS ?4 AND data IS ?5;
