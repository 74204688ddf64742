-- Is an event of a day's partition on the list of an operation, or was it done again and that is open or ended after an instant?
-- Index: the primary keys; the lists of operations are read whole. Lock: the caller has locked what would add to them.
SELECT EXISTS (
        SELECT 1
        FROM made_later m
            CROSS JOIN LATERAL (SELECT 1 FROM {events} WHERE id = m.event_id OFFSET 0) e
            CROSS JOIN LATERAL (SELECT ended_at FROM all_deliveries WHERE lane = m.lane AND id = m.id OFFSET 0) d
        WHERE m.event_id > $1 AND m.event_id < $2 AND (d.ended_at IS NULL OR d.ended_at >= $3)
    )
    OR EXISTS (
        SELECT 1 FROM operation_items i CROSS JOIN LATERAL (SELECT 1 FROM {events} WHERE id = i.event_id OFFSET 0) e
        WHERE i.event_id > $1 AND i.event_id < $2
    )
    OR EXISTS (
        SELECT 1 FROM erasure_items i CROSS JOIN LATERAL (SELECT 1 FROM {events} WHERE id = i.event_id OFFSET 0) e
        WHERE i.event_id > $1 AND i.event_id < $2
    ) AS is_needed;
