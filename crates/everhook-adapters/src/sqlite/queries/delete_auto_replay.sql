-- Deletes the automatic replay of a deleted organization.
-- Index: the primary key. Lock: the write lock.
DELETE FROM auto_replays WHERE organization_id = ?1;
