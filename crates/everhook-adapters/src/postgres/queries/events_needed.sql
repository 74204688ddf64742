-- Which events between two ids does something need that can be looked up: a dead letter, a delivery that was made later and is open or ended after an
-- instant, the list of an operation, an open delivery of the same day? In the order of their ids.
-- Index: dead_letters_event_endpoint; the primary keys of made_later, open_deliveries and deliveries; the lists of operations are read whole, which
-- are short as a rule. Lock: none.
-- $5 is the beginning of the day, and $2 its end. Events with deliveries of other days are moved without being asked about.
(SELECT event_id FROM dead_letters WHERE event_id > $1 AND event_id < $2 ORDER BY event_id LIMIT $4)
UNION
(SELECT m.event_id
FROM made_later m CROSS JOIN LATERAL (SELECT ended_at FROM all_deliveries WHERE lane = m.lane AND id = m.id OFFSET 0) d
WHERE m.event_id > $1 AND m.event_id < $2 AND (d.ended_at IS NULL OR d.ended_at >= $3)
ORDER BY m.event_id
LIMIT $4)
UNION
(SELECT event_id FROM operation_items WHERE event_id > $1 AND event_id < $2 ORDER BY event_id LIMIT $4)
UNION
(SELECT event_id FROM erasure_items WHERE event_id > $1 AND event_id < $2 ORDER BY event_id LIMIT $4)
UNION
(SELECT o.event_id
FROM lanes p CROSS JOIN LATERAL (SELECT event_id FROM open_deliveries WHERE lane = p.lane AND id > $5 AND id < $2 OFFSET 0) o
WHERE o.event_id > $1 AND o.event_id < $2
ORDER BY o.event_id
LIMIT $4)
ORDER BY event_id
LIMIT $4;
