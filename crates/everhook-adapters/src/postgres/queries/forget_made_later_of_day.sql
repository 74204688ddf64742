-- Forgets deliveries that were made later of events between two ids that are gone.
-- Index: the primary keys. Lock: the rows.
DELETE FROM made_later m
USING (
    SELECT n.event_id, n.id
    FROM made_later n
    WHERE n.event_id > $1 AND n.event_id < $2 AND NOT EXISTS (SELECT 1 FROM events e WHERE e.id = n.event_id)
    LIMIT $3
) AS gone
WHERE m.event_id = gone.event_id AND m.id = gone.id;
