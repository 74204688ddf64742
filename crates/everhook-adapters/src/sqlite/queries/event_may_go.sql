-- May an event go? Where is its data, and under which key was it published, if so?
-- It may once all of its deliveries ended before an instant, unless it was made after that, a dead letter of it is kept, something about it is
-- unfinished, or an operation has it on its list.
-- Index: the primary keys; made_later_by_event; dead_letters_event_endpoint; operations_with_work, and the items of those at the event's place.
-- Lock: none, or the write lock, taken by the caller.
SELECT e.payload, e.application_id, e.idempotency_key
FROM events e
WHERE e.id = ?1 AND e.created_at < ?2
    AND NOT EXISTS (
        SELECT 1 FROM deliveries d
        WHERE d.id BETWEEN e.first_delivery_id AND e.last_delivery_id AND d.event_id = e.id AND (d.ended_at IS NULL OR d.ended_at >= ?2)
    )
    AND NOT EXISTS (
        SELECT 1 FROM deliveries d INDEXED BY made_later_by_event
        WHERE d.event_id = e.id AND (d.replay_of IS NOT NULL OR d.operation_id IS NOT NULL) AND (d.ended_at IS NULL OR d.ended_at >= ?2)
    )
    AND NOT EXISTS (SELECT 1 FROM dead_letters l WHERE l.event_id = e.id)
    AND NOT EXISTS (SELECT 1 FROM unfinished_fanouts f WHERE f.event_id = e.id)
    AND NOT EXISTS (SELECT 1 FROM unfinished_erasures u WHERE u.event_id = e.id)
    AND NOT EXISTS (
        SELECT 1 FROM operations o INDEXED BY operations_with_work
            CROSS JOIN operation_items i ON i.operation_id = o.id AND i.position = e.sequence_number AND i.event_id = e.id
        WHERE o.phase <> 'over'
    )
    AND NOT EXISTS (
        SELECT 1 FROM operations o INDEXED BY operations_with_work
            CROSS JOIN erasure_items i ON i.operation_id = o.id AND i.event_id = e.id
        WHERE o.phase <> 'over'
    );
