-- Removes those of some endpoints that were deleted before an instant and are named by nothing that is kept, with what belongs to each. How many went?
-- Index: the primary keys; of dead letters any that has their endpoint, and few are looked for: what has one has deliveries. Lock: the rows.
WITH gone AS (
    DELETE FROM endpoints
    WHERE id = ANY(ARRAY(
        SELECT p.id
        FROM endpoints p
        WHERE p.id > $1 AND p.id <= $2 AND p.state = 'deleted' AND p.deleted_at < $3
            AND (SELECT true FROM open_deliveries WHERE lane = p.lane LIMIT 1) IS NULL
            AND (SELECT true FROM deliveries WHERE lane = p.lane LIMIT 1) IS NULL
            AND (SELECT true FROM dead_letters WHERE endpoint_id = p.id LIMIT 1) IS NULL
            AND (SELECT true FROM rollups WHERE lane = p.lane LIMIT 1) IS NULL
            AND (SELECT true FROM endpoint_revisions WHERE endpoint_id = p.id AND number < p.revision LIMIT 1) IS NULL
        LIMIT $4
    ))
    RETURNING id, lane, application_id, changed_version
), noted AS (
    -- What changed since before their deletion is no longer known.
    UPDATE application_counters c SET purged_version = greatest(c.purged_version, g.version)
    FROM (SELECT application_id, max(changed_version) AS version FROM gone GROUP BY application_id) AS g
    WHERE c.application_id = g.application_id
), revisions AS (
    DELETE FROM endpoint_revisions WHERE endpoint_id = ANY(ARRAY(SELECT id FROM gone))
), periods AS (
    DELETE FROM open_periods WHERE endpoint_id = ANY(ARRAY(SELECT id FROM gone))
), breakers AS (
    DELETE FROM circuit_breakers WHERE endpoint_id = ANY(ARRAY(SELECT id FROM gone))
), lanes_gone AS (
    DELETE FROM lanes WHERE lane = ANY(ARRAY(SELECT lane FROM gone))
), newest AS (
    DELETE FROM endpoint_activity WHERE lane = ANY(ARRAY(SELECT lane FROM gone))
)
SELECT count(*) AS removed FROM gone;
