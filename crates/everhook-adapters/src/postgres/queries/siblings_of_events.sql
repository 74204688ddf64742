-- Which deliveries that have ended were made with events that have several?
-- Index: the primary key of events; lanes_by_application; in each lane of the application, by the primary key of deliveries, the stretch of the
-- event. Lock: none.
SELECT d.id
FROM unnest($1::uuid[]) AS u (id)
    CROSS JOIN LATERAL (SELECT id, application_id, deliveries, first_delivery_id, last_delivery_id FROM events WHERE id = u.id OFFSET 0) e
    CROSS JOIN LATERAL (SELECT lane FROM lanes WHERE application_id = e.application_id OFFSET 0) p
    CROSS JOIN LATERAL (
        SELECT id FROM deliveries
        WHERE lane = p.lane AND id BETWEEN e.first_delivery_id AND e.last_delivery_id AND event_id = e.id
        OFFSET 0
    ) d
WHERE e.deliveries > 1;
