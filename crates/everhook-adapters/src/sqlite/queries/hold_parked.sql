-- Holds a delivery that was made parked behind those before it: what it waited for has come.
-- Index: the primary key; enters held_in_order, leaves the indexes of what is parked. Lock: the write lock.
UPDATE deliveries SET stage = 4, parked_organization_id = NULL, waits_for = NULL WHERE id = ?1 AND stage = 5;
