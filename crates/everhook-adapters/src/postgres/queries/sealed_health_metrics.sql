-- What is sealed of some metrics, and for whom?
-- Index: the primary key. Lock: none.
SELECT id, organization_id, profile_id, raw FROM health_metrics WHERE id = ANY($1) ORDER BY id;
