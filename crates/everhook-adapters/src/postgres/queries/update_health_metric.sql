-- Changes a metric.
-- Index: the primary key. Lock: the row.
UPDATE health_metrics
SET sport = $2, start_at = $3, end_at = $4, value = $5, details = $6, record_id = $7, raw_encoding = $8, raw = $9, dedupe_hash = $10, updated_at = $11
WHERE id = $1;
