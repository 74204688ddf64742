-- Which metric has this hash?
-- Index: health_metrics_by_hash. Lock: none.
SELECT id, organization_id, profile_id, provider, metric_type, sport, start_at, end_at, value, details, record_id, raw_encoding, raw, dedupe_hash, created_at, updated_at
FROM health_metrics
WHERE organization_id = $1 AND dedupe_hash = $2;
