-- Forgets the other ids of an event.
-- Index: event_aliases_by_event. Lock: the write lock.
DELETE FROM event_aliases WHERE event_id = ?1;
