-- Notes that what an organization or application has is to be deleted.
-- Index: the primary key. Lock: the write lock.
INSERT INTO deletions (id, kind, organization_id, reached) VALUES (?1, ?2, ?3, zeroblob(16));
