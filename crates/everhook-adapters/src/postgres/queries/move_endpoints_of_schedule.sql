-- Has endpoints follow another retry schedule, at the version that their application has since a moment ago.
-- `updated_at` moves on in any case, so that whoever read the endpoint before must read it again.
-- Index: the primary keys. Lock: the rows; the organization and the applications' counters are taken by the caller before.
UPDATE endpoints
SET retry_schedule_id = $2, retry_schedule = $3, updated_at = greatest(updated_at + 1, $4),
    changed_version = (SELECT c.config_version FROM application_counters c WHERE c.application_id = endpoints.application_id)
WHERE id = ANY($1);
