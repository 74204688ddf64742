-- Records attempts and moves their deliveries on, each if it waits for this attempt as its next. Answers those that were moved: none if the boot
-- that made the attempts (if they are one's) is no longer alive.
-- Index: the primary keys; leaves or moves within waiting_by_lane. Lock: the boot, against being buried; the rows of the deliveries.
WITH fence AS MATERIALIZED (
    SELECT id FROM boots WHERE id = $27 FOR KEY SHARE
), given AS MATERIALIZED (
    SELECT * FROM unnest(
        $1::bigint[], $2::uuid[], $3::integer[], $4::smallint[], $5::bigint[], $6::bigint[], $7::text[], $8::text[], $9::smallint[],
        $10::smallint[], $11::integer[], $12::smallint[], $13::text[], $14::bytea[], $15::bytea[], $16::bigint[], $17::bigint[],
        $18::bigint[], $19::bigint[], $20::bigint[], $21::bigint[], $22::bigint[], $23::bigint[], $24::bigint[], $25::bigint[], $26::bigint[],
        $28::smallint[], $29::integer[]
    ) AS g (
        lane, id, number, stage, due_at, ended_at, cause, failure_category, status, breaker, node, response_status, error, response_headers,
        response_body_sample, retry_after_delay, retry_after_at, duration, dns, connect, tls, first_byte, scheduled_at, picked_after,
        executed_after, next_retry_at, response_cut, revision
    )
    WHERE $27::uuid IS NULL OR EXISTS (SELECT 1 FROM fence)
), found AS MATERIALIZED (
    -- Row by row through the primary key, however little the planner knows of the table.
    SELECT o.place, o.event_id, o.priority, o.retry_schedule, o.created_at, o.replay_of, o.operation_id, o.order_key, g.*
    FROM given g
        CROSS JOIN LATERAL (
            SELECT d.ctid AS place, d.event_id, d.priority, d.retry_schedule, d.created_at, d.replay_of, d.operation_id, d.order_key,
                d.stage, d.attempts
            FROM open_deliveries d
            WHERE d.lane = g.lane AND d.id = g.id
            FOR UPDATE
            OFFSET 0
        ) AS o
    WHERE o.stage = 0 AND o.attempts = g.number - 1
), ended AS (
    DELETE FROM open_deliveries WHERE ctid = ANY(ARRAY(SELECT place FROM found WHERE stage <> 0))
), kept AS (
    INSERT INTO deliveries (
        lane, id, event_id, priority, stage, attempts, retry_schedule, ended_at, created_at, cause, failure_category, replay_of, operation_id
    )
    SELECT lane, id, event_id, priority, stage, number, retry_schedule, ended_at, created_at, cause, failure_category, replay_of, operation_id
    FROM found
    WHERE stage <> 0
), waiting AS (
    UPDATE open_deliveries o SET due_at = f.due_at, attempts = f.number, failure_category = f.failure_category, expires_into = NULL
    FROM found f
    WHERE f.stage = 0 AND o.ctid = f.place
), noted AS (
    INSERT INTO attempts (
        delivery_id, number, status, breaker, node, response_status, failure_category, error, response_headers, response_body_sample,
        retry_after_delay, retry_after_at, duration, dns, connect, tls, first_byte, scheduled_at, picked_after, executed_after, next_retry_at,
        response_cut, revision
    )
    SELECT id, number, status, breaker, node, response_status, failure_category, error, response_headers, response_body_sample,
        retry_after_delay, retry_after_at, duration, dns, connect, tls, first_byte, scheduled_at, picked_after, executed_after, next_retry_at,
        response_cut, revision
    FROM found
)
SELECT id, CASE WHEN stage <> 0 THEN event_id END AS event_id, CASE WHEN stage <> 0 THEN order_key END AS order_key FROM found;
