-- Which metrics does an organization have between two ids, newest first (a page backward: oldest first)?
-- Index: health_metrics_by_profile where a profile is named, else health_metrics_by_organization. Lock: none, a snapshot.
SELECT id, organization_id, profile_id, provider, metric_type, sport, start_at, end_at, value, details, record_id, raw_encoding, raw, dedupe_hash, created_at, updated_at
FROM health_metrics
WHERE organization_id = ?1 AND id > ?2 AND id < ?3
    AND (?5 IS NULL OR profile_id = ?5) AND (?6 IS NULL OR metric_type = ?6) AND (?7 IS NULL OR start_at >= ?7) AND (?8 IS NULL OR start_at < ?8)
ORDER BY id DESC
LIMIT ?4;
