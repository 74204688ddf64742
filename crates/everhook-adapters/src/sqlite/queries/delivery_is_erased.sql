-- Was a delivery cancelled because its event was erased?
-- Index: the primary key. Lock: the write lock, taken by the caller.
SELECT EXISTS (SELECT 1 FROM deliveries WHERE id = ?1 AND stage = 3 AND cause = 'erased');
