-- Forgets other ids of events between two ids that are gone.
-- Index: event_aliases_by_event, then the primary keys. Lock: the rows.
DELETE FROM event_aliases a
USING (
    SELECT b.alias
    FROM event_aliases b
    WHERE b.event_id > $1 AND b.event_id < $2 AND NOT EXISTS (SELECT 1 FROM events e WHERE e.id = b.event_id)
    LIMIT $3
) AS gone
WHERE a.alias = gone.alias;
