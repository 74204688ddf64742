-- Forgets the other ids of events.
-- Index: event_aliases_by_event. Lock: the rows.
DELETE FROM event_aliases WHERE event_id = ANY($1);
