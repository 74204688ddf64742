-- Removes the channels of a deleted organization.
-- Index: the unique key (organization_id, name). Lock: the write lock.
DELETE FROM channels WHERE organization_id = ?1;
