-- Nothing waits behind the endpoint's barrier any more.
-- Index: endpoints_by_lane. Lock: the write lock.
UPDATE endpoints SET order_barrier = NULL WHERE lane = ?1 AND order_barrier IS NOT NULL RETURNING application_id;
