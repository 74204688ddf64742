-- From now on deliveries for an endpoint wait until those that are open have ended.
-- Index: the primary key. Lock: the write lock.
UPDATE lanes SET order_barrier = ?2 WHERE id = ?1;
