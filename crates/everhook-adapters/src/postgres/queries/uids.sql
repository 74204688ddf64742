-- Which uids do some endpoints, the deleted too, and some applications of an organization have?
-- Index: the primary keys. Lock: none.
SELECT true AS is_endpoint, id, uid FROM endpoints WHERE organization_id = $1 AND id = ANY($2) AND uid IS NOT NULL
UNION ALL
SELECT false, id, uid FROM applications WHERE organization_id = $1 AND id = ANY($3) AND uid IS NOT NULL;
