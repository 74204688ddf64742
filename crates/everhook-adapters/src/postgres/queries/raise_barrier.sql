-- From now on deliveries for an endpoint wait until those that are open have ended.
-- Index: the primary key. Lock: the row; its application's counters are taken by the caller before.
UPDATE lanes SET order_barrier = $2 WHERE id = $1;
