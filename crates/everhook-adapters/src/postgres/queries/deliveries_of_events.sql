-- Which deliveries do events have, and where? The deliveries that were made with them lie between two ids.
-- Index: the primary keys of open_deliveries and deliveries: in each lane of the application that stretch, and one by one what made_later has;
-- lanes_by_application, lanes_pkey. Lock: none; the counters, taken by the caller, hold up whoever would make one.
-- `OFFSET 0` keeps the look-ups by lane.
SELECT d.lane, d.id, p.id AS endpoint_id, p.application_id
FROM events v
    CROSS JOIN LATERAL (
        SELECT lane, v.first_delivery_id AS first, v.last_delivery_id AS last, false AS is_later
        FROM lanes WHERE application_id = v.application_id
        UNION ALL
        SELECT lane, id, id, true FROM made_later WHERE event_id = v.id
    ) place
    CROSS JOIN LATERAL (
        SELECT lane, id FROM all_deliveries
        WHERE lane = place.lane AND id BETWEEN place.first AND place.last AND event_id = v.id
            AND (replay_of IS NOT NULL OR operation_id IS NOT NULL) = place.is_later
        OFFSET 0
    ) d
    CROSS JOIN LATERAL (SELECT id, application_id FROM lanes WHERE lane = d.lane OFFSET 0) p
WHERE v.id = ANY($1);
