-- In which order do deliveries for an endpoint go, and what do they wait behind?
-- Index: the primary key. Lock: none; its application's counters are taken by the caller.
SELECT e.ordering, l.order_barrier, l.lane, e.updated_at FROM endpoints e JOIN lanes l ON l.lane = e.lane WHERE e.id = $1;
