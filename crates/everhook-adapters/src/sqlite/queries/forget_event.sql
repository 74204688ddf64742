-- Removes an event. Its data and its deliveries went before.
-- Index: the primary key; leaves events_by_organization. Lock: the write lock.
DELETE FROM events WHERE id = ?1;
