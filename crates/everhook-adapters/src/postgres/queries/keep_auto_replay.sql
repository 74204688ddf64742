-- Sets how an organization's dead letters come back by themselves.
-- Index: the primary key. Lock: the row.
WITH noted AS (
    INSERT INTO changes (kind, id) VALUES ('organization', $1)
)
INSERT INTO auto_replays (organization_id, enabled, after, requests_per_second, max_tries)
VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (organization_id) DO UPDATE SET
    enabled = excluded.enabled,
    after = excluded.after,
    requests_per_second = excluded.requests_per_second,
    max_tries = excluded.max_tries;
