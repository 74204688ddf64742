-- Which events of a day's partition have deliveries of other days? The names of the partition and the day's ends are filled in.
-- Index: the partition's own of such events, which has this very condition (`partitions.rs`). Lock: none; the caller may hold up whoever would add one.
-- In the order of that index, which no other gives: it is gone by also where the server knows nothing about the partition yet.
SELECT id
FROM {events}
WHERE first_delivery_id < '{begin}' OR last_delivery_id >= '{end}'
ORDER BY last_delivery_id
LIMIT $1;
