-- Takes health checks that are due. Each is due again whole intervals after it was.
-- Index: app_checks_by_turn, the primary key. Lock: the rows.
UPDATE app_checks SET next_at = next_at + (($1 - next_at) / $2 + 1) * $2
WHERE application_id = ANY (ARRAY(SELECT application_id FROM app_checks WHERE next_at <= $1 ORDER BY next_at LIMIT $3))
RETURNING application_id, organization_id, url, next_at, status, checked_at, took, failures, failing_since, detail, checks;
