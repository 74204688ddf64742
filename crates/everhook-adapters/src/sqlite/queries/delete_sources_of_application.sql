-- Deletes the sources of a deleted application; which were there?
-- Index: sources_by_organization, of which there are at most a thousand. Lock: the write lock.
DELETE FROM sources WHERE organization_id = ?1 AND application_id = ?2 RETURNING id;
