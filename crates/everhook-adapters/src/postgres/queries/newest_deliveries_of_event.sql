-- What became of each delivery of some events of an application, oldest first? The deliveries that were made with them lie between two ids.
-- Index: the primary keys of open_deliveries and deliveries: in each lane of the application that stretch, and one by one what made_later has;
-- lanes_by_application, lanes_pkey. Lock: none. `OFFSET 0` keeps the look-ups by lane.
SELECT d.id, d.event_id, p.id AS endpoint_id, d.stage
FROM (
        SELECT lane, $2::uuid AS first, $3::uuid AS last, false AS is_later FROM lanes WHERE application_id = $4
        UNION ALL
        SELECT lane, id, id, true FROM made_later WHERE event_id = ANY($1::uuid[])
    ) place
    CROSS JOIN LATERAL (
        SELECT id, lane, event_id, stage FROM all_deliveries
        WHERE lane = place.lane AND id BETWEEN place.first AND place.last AND event_id = ANY($1)
            AND (replay_of IS NOT NULL OR operation_id IS NOT NULL) = place.is_later
        OFFSET 0
    ) d
    CROSS JOIN LATERAL (SELECT id FROM lanes WHERE lane = d.lane OFFSET 0) p
ORDER BY d.id;
