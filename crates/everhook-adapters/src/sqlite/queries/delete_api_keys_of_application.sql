-- Revokes the keys that reach one application alone; which were there?
-- Index: api_keys_by_organization, of which there are at most a thousand. Lock: the write lock.
DELETE FROM api_keys WHERE organization_id = ?1 AND application_id = ?2 RETURNING id;
