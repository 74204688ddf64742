-- Which key does a delivery have?
-- Index: the primary key. Lock: the write lock, taken by the caller.
SELECT lane, order_key FROM deliveries WHERE id = ?1 AND order_key IS NOT NULL;
