-- Which metric was made of a record of a provider?
-- Index: health_metrics_by_record. Lock: none, a snapshot.
SELECT id, organization_id, profile_id, provider, metric_type, sport, start_at, end_at, value, details, record_id, raw_encoding, raw, dedupe_hash, created_at, updated_at
FROM health_metrics
WHERE organization_id = ?1 AND profile_id = ?2 AND provider = ?3 AND metric_type = ?4 AND record_id = ?5;
