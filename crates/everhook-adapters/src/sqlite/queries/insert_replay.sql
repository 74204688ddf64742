-- Makes a delivery that waits and was not made with its event.
-- Index: the primary key, waiting_by_lane, deliveries_by_lane, made_later_by_event. Lock: the write lock.
INSERT INTO deliveries (id, event_id, lane, priority, retry_schedule, stage, due_at, attempts, replay_of, created_at, operation_id)
VALUES (?1, ?2, ?3, ?4, ?5, 0, ?6, 0, ?7, ?6, ?8);
