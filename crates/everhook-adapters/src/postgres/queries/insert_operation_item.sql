-- Adds events and endpoints to an operation's list; leaves out those that are on it, and events that are gone.
-- Index: the primary keys. Lock: the operation's row, taken by the caller.
INSERT INTO operation_items (operation_id, position, lane, event_id, replay_of)
SELECT $1, e.sequence_number, i.lane, i.event_id, i.replay_of
FROM unnest($2::uuid[], $3::bigint[], $4::uuid[]) AS i (event_id, lane, replay_of)
    CROSS JOIN LATERAL (SELECT sequence_number FROM events WHERE id = i.event_id OFFSET 0) e
ON CONFLICT DO NOTHING;
