-- Notes at which version of its application's configuration an endpoint changed.
-- Index: the primary key. Lock: the write lock.
UPDATE endpoints SET changed_version = ?2 WHERE id = ?1;
