-- What is sealed of a metric, and for whom?
-- Index: the primary key. Lock: none.
SELECT organization_id, profile_id, raw FROM health_metrics WHERE id = ?1;
