-- Makes a delivery that has an order: it waits, or is held.
-- Index: the primary key, waiting_by_lane, deliveries_by_lane, open_in_order. Lock: the write lock.
INSERT INTO deliveries (
    id, event_id, lane, priority, retry_schedule, stage, due_at, attempts, replay_of, created_at, order_key, order_position, operation_id
)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 0, ?8, ?9, ?10, ?11, ?12);
