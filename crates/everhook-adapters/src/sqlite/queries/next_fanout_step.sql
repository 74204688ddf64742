-- Which deliveries of an event (any event, if none is named) are to be made next?
-- Index: the primary keys. Lock: the write lock, taken by the caller.
SELECT f.event_id, f.step, f.deliveries, f.made_at, f.waits_for, e.priority
FROM unfinished_fanouts f JOIN events e ON e.id = f.event_id
WHERE ?1 IS NULL OR f.event_id = ?1
ORDER BY f.event_id, f.step
LIMIT 1;
