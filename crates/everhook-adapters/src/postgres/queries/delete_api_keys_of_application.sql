-- Revokes the keys that reach one application alone, and forgets their last uses; which were there?
-- Index: api_keys_by_organization, of which there are at most a thousand; the primary key of api_key_uses. Lock: the rows.
WITH gone AS (DELETE FROM api_keys WHERE organization_id = $1 AND application_id = $2 RETURNING id),
    uses AS (DELETE FROM api_key_uses WHERE api_key_id IN (SELECT id FROM gone))
SELECT id FROM gone;
