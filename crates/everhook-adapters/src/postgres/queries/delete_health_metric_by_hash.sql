-- Deletes the metric that has this hash, unless it is the one with this id: the other is of the same span now.
-- Index: health_metrics_by_hash. Lock: the row.
DELETE FROM health_metrics WHERE organization_id = $1 AND dedupe_hash = $2 AND id <> $3;
