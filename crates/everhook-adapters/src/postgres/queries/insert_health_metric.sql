-- Makes a metric.
-- Index: the primary key, health_metrics_by_hash, health_metrics_by_record. Lock: the row.
INSERT INTO health_metrics (id, organization_id, profile_id, provider, metric_type, sport, start_at, end_at, value, details, record_id, raw_encoding, raw, dedupe_hash, created_at, updated_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $15);
