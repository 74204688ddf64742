-- Which deliveries in some pages of a day's partition ended after an instant, or are of events that have a dead letter or were done again?
-- Of the former, the others of the same event are needed as well: siblings_of_events.
-- Index: none, these pages are read; dead_letters_event_endpoint; the primary key of made_later. Lock: none.
SELECT c.id, c.event_id, c.ended_at >= $1 AS ended_late
FROM {deliveries} c
WHERE c.ctid >= '({page},0)' AND c.ctid < '({until},0)'
    AND (
        c.ended_at >= $1
        OR EXISTS (SELECT 1 FROM dead_letters l WHERE l.event_id = c.event_id)
        OR EXISTS (SELECT 1 FROM made_later m WHERE m.event_id = c.event_id)
    );
