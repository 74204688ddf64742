-- Removes the ordering key that a delivery had from its event. It has ended, so that nothing waits for it by that.
-- Index: the primary key. Lock: the write lock.
UPDATE deliveries SET order_key = NULL, order_position = NULL WHERE id = ?1 AND order_key LIKE '=%';
