-- Removes the attempts of a delivery.
-- Index: the primary key. Lock: the write lock.
DELETE FROM attempts WHERE delivery_id = ?1;
