-- Removes those of some endpoints that were deleted before an instant and are named by nothing that is kept, with what belongs to each. How many went?
-- Index: the primary keys, dead_letters_by_endpoint. Lock: the rows.
WITH gone AS (
    DELETE FROM endpoints
    WHERE id = ANY(ARRAY(
        SELECT p.id
        FROM endpoints p
        WHERE p.id > $1 AND p.id <= $2 AND p.state = 'deleted' AND p.deleted_at < $3
            AND NOT EXISTS (SELECT FROM open_deliveries d WHERE d.lane = p.lane)
            AND NOT EXISTS (SELECT FROM deliveries d WHERE d.lane = p.lane)
            AND NOT EXISTS (SELECT FROM dead_letters l WHERE l.endpoint_id = p.id)
            AND NOT EXISTS (SELECT FROM rollups u WHERE u.lane = p.lane)
            AND NOT EXISTS (SELECT FROM endpoint_revisions r WHERE r.endpoint_id = p.id AND r.number < p.revision)
        LIMIT $4
    ))
    RETURNING id, lane
), revisions AS (
    DELETE FROM endpoint_revisions WHERE endpoint_id IN (SELECT id FROM gone)
), periods AS (
    DELETE FROM open_periods WHERE endpoint_id IN (SELECT id FROM gone)
), breakers AS (
    DELETE FROM circuit_breakers WHERE endpoint_id IN (SELECT id FROM gone)
), standing AS (
    DELETE FROM endpoint_standing WHERE lane IN (SELECT lane FROM gone)
)
SELECT count(*) AS removed FROM gone;
