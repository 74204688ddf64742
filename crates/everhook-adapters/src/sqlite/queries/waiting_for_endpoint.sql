-- Which deliveries that were made until an instant wait for an endpoint, oldest first over its three queues?
-- Index: waiting_by_lane, lanes_by_id. Lock: the write lock, taken by the caller.
SELECT id, replay_of, attempts FROM (
    SELECT * FROM (SELECT id, replay_of, attempts, due_at FROM deliveries INDEXED BY waiting_by_lane
        WHERE stage = 0 AND lane = (SELECT lane FROM lanes WHERE id = ?1) AND priority = 0 AND created_at <= ?3 ORDER BY due_at, id LIMIT ?2)
    UNION ALL
    SELECT * FROM (SELECT id, replay_of, attempts, due_at FROM deliveries INDEXED BY waiting_by_lane
        WHERE stage = 0 AND lane = (SELECT lane FROM lanes WHERE id = ?1) AND priority = 1 AND created_at <= ?3 ORDER BY due_at, id LIMIT ?2)
    UNION ALL
    SELECT * FROM (SELECT id, replay_of, attempts, due_at FROM deliveries INDEXED BY waiting_by_lane
        WHERE stage = 0 AND lane = (SELECT lane FROM lanes WHERE id = ?1) AND priority = 2 AND created_at <= ?3 ORDER BY due_at, id LIMIT ?2)
)
ORDER BY due_at, id
LIMIT ?2;
