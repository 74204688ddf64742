-- Deletes what was made of a record of a provider for a profile.
-- Index: health_metrics_by_record. Lock: the rows.
DELETE FROM health_metrics WHERE organization_id = $1 AND profile_id = $2 AND provider = $3 AND record_id = $4;
