-- Nothing waits behind the endpoint's barrier any more.
-- Index: the primary key of lanes. Lock: the write lock.
UPDATE lanes SET order_barrier = NULL WHERE lane = ?1 AND order_barrier IS NOT NULL RETURNING id, application_id;
