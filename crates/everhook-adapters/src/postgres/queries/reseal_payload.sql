-- Replaces an event's data and kept headers by the same, sealed otherwise, unless they were erased.
-- Index: the primary keys of the partitions. Lock: the row.
UPDATE events SET body = $2, received_headers = $3 WHERE id = $1 AND erased_at IS NULL AND encoding >= 2;
