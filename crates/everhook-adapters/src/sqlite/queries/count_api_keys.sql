-- How many API keys does an organization have?
-- Index: api_keys_by_organization. Lock: the write lock, taken by the caller.
SELECT count(*) FROM api_keys WHERE organization_id = ?1;
