-- Forgets changes that every node that lives has seen long ago.
-- Index: the primary key. Lock: the rows.
WITH forgotten AS (
    DELETE FROM changes WHERE at < clock_timestamp() - interval '1 hour' RETURNING transaction
)
UPDATE forgotten_changes SET until = (SELECT max(transaction::text::numeric + 1)::text::xid8 FROM forgotten)
WHERE EXISTS (SELECT 1 FROM forgotten);
