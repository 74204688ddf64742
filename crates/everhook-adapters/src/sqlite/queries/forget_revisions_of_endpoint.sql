-- Removes the revisions of an endpoint.
-- Index: the primary key. Lock: the write lock.
DELETE FROM endpoint_revisions WHERE endpoint_id = ?1;
