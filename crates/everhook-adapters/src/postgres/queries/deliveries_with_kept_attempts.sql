-- Which deliveries in some pages of a day's partition ended after an instant, or are of events that have a dead letter or were done again?
-- Index: none, these pages are read; dead_letters_event_endpoint; the primary key of made_later. Lock: none.
SELECT c.lane, c.id
FROM {deliveries} c
WHERE c.ctid >= '({page},0)' AND c.ctid < '({until},0)'
    AND (
        c.ended_at >= $1
        OR EXISTS (SELECT 1 FROM dead_letters l WHERE l.event_id = c.event_id)
        OR EXISTS (SELECT 1 FROM made_later m WHERE m.event_id = c.event_id)
    );
