-- Deletes the sources of a deleted organization; which were there?
-- Index: sources_by_organization, of which there are at most a thousand. Lock: the write lock.
DELETE FROM sources WHERE organization_id = ?1 RETURNING id;
