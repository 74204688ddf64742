-- Makes a delivery that waits.
-- Index: the primary key, waiting_by_lane, deliveries_by_lane. Lock: the write lock.
INSERT INTO deliveries (id, event_id, lane, priority, retry_schedule, stage, due_at, attempts, replay_of, created_at)
VALUES (?1, ?2, ?3, ?4, ?5, 0, ?6, 0, ?7, ?6);
