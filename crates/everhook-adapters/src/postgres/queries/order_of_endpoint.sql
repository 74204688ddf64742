-- In which order do deliveries for an endpoint go, and what do they wait behind?
-- Index: the primary key. Lock: none; its application's counters are taken by the caller.
SELECT ordering, order_barrier, lane, updated_at FROM endpoints WHERE id = $1;
