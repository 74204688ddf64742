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
), ended AS (
    DELETE FROM open_deliveries o USING given g
    WHERE g.stage <> 0 AND o.lane = g.lane AND o.id = g.id AND o.stage = 0 AND o.attempts = g.number - 1
    RETURNING o.event_id, o.priority, o.retry_schedule, o.created_at, o.replay_of, o.operation_id, o.order_key, g.*
), kept AS (
    INSERT INTO deliveries (
        lane, id, event_id, priority, stage, attempts, retry_schedule, ended_at, created_at, cause, failure_category, replay_of, operation_id
    )
    SELECT lane, id, event_id, priority, stage, number, retry_schedule, ended_at, created_at, cause, failure_category, replay_of, operation_id
    FROM ended
), waiting AS (
    UPDATE open_deliveries o SET due_at = g.due_at, attempts = g.number, failure_category = g.failure_category
    FROM given g
    WHERE g.stage = 0 AND o.lane = g.lane AND o.id = g.id AND o.stage = 0 AND o.attempts = g.number - 1
    RETURNING g.*
), noted AS (
    INSERT INTO attempts (
        delivery_id, number, status, breaker, node, response_status, failure_category, error, response_headers, response_body_sample,
        retry_after_delay, retry_after_at, duration, dns, connect, tls, first_byte, scheduled_at, picked_after, executed_after, next_retry_at,
        response_cut, revision
    )
    SELECT id, number, status, breaker, node, response_status, failure_category, error, response_headers, response_body_sample,
        retry_after_delay, retry_after_at, duration, dns, connect, tls, first_byte, scheduled_at, picked_after, executed_after, next_retry_at,
        response_cut, revision
    FROM ended
    UNION ALL
    SELECT id, number, status, breaker, node, response_status, failure_category, error, response_headers, response_body_sample,
        retry_after_delay, retry_after_at, duration, dns, connect, tls, first_byte, scheduled_at, picked_after, executed_after, next_retry_at,
        response_cut, revision
    FROM waiting
)
SELECT id, event_id, order_key FROM ended
UNION ALL
SELECT id, NULL, NULL FROM waiting;
