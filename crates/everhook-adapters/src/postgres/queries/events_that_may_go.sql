-- Which of these events may go? Those whose deliveries all ended before an instant, unless they were made after that, a dead letter of them is
-- kept, or an operation has them on its list.
-- Index: the primary keys; dead_letters_event_endpoint; operations_with_work, and the items of those at the event's place; lanes_by_application,
-- and in each lane the stretch of the event. Lock: none; the counters, taken by the caller, hold up whoever would make a delivery.
-- What is asked first is cheap, and keeps most of those that stay.
WITH unclaimed AS MATERIALIZED (
    SELECT e.*
    FROM unnest($1::uuid[]) AS u (id)
        CROSS JOIN LATERAL (
            SELECT id, application_id, sequence_number, created_at, first_delivery_id, last_delivery_id FROM events WHERE id = u.id OFFSET 0
        ) e
    WHERE e.created_at < $2
        AND NOT EXISTS (SELECT 1 FROM dead_letters l WHERE l.event_id = e.id)
        AND NOT EXISTS (
            SELECT 1 FROM operations o JOIN operation_items i ON i.operation_id = o.id AND i.position = e.sequence_number
            WHERE o.phase <> 'over' AND i.event_id = e.id
        )
        AND NOT EXISTS (
            SELECT 1 FROM operations o JOIN erasure_items i ON i.operation_id = o.id AND i.event_id = e.id WHERE o.phase <> 'over'
        )
)
SELECT e.id, e.application_id
FROM unclaimed e
WHERE NOT EXISTS (
        SELECT 1
        FROM made_later m CROSS JOIN LATERAL (SELECT ended_at FROM all_deliveries WHERE lane = m.lane AND id = m.id OFFSET 0) d
        WHERE m.event_id = e.id AND (d.ended_at IS NULL OR d.ended_at >= $2)
    )
    AND NOT EXISTS (
        SELECT 1
        FROM lanes p
            CROSS JOIN LATERAL (
                SELECT ended_at FROM all_deliveries
                WHERE lane = p.lane AND id BETWEEN e.first_delivery_id AND e.last_delivery_id AND event_id = e.id
                OFFSET 0
            ) d
        WHERE p.application_id = e.application_id AND (d.ended_at IS NULL OR d.ended_at >= $2)
    );
