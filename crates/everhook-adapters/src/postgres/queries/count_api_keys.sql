-- How many API keys does an organization have?
-- Index: api_keys_by_organization. Lock: the organization, taken by the caller.
SELECT count(*) AS count FROM api_keys WHERE organization_id = $1;
