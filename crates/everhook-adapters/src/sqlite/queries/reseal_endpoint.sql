-- Replaces what is sealed of an endpoint by the same, sealed otherwise, unless somebody changed it.
-- Index: the primary key. Lock: the write lock.
UPDATE endpoints SET headers = ?2, secret = ?3, previous_secret = ?4
WHERE id = ?1 AND headers = ?5 AND secret = ?6 AND previous_secret IS ?7;
