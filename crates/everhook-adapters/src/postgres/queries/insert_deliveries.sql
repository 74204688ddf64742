-- Makes deliveries that wait or are held.
-- Index: the primary key, waiting_by_lane; open_in_order and open_by_position for those that have an order. Lock: none but the new rows.
INSERT INTO open_deliveries (
    lane, id, event_id, priority, stage, attempts, retry_schedule, due_at, created_at, replay_of, operation_id, order_key, order_position
)
SELECT d.lane, d.id, d.event_id, d.priority, d.stage, 0, d.retry_schedule, d.due_at, d.created_at, d.replay_of, d.operation_id, d.order_key,
    d.order_position
FROM unnest(
    $1::bigint[], $2::uuid[], $3::uuid[], $4::smallint[], $5::smallint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::uuid[], $10::uuid[],
    $11::text[], $12::bigint[]
) AS d (lane, id, event_id, priority, stage, retry_schedule, due_at, created_at, replay_of, operation_id, order_key, order_position);
