-- Ends boots whose leases have ended.
-- Index: the primary key. Lock: the rows; one that settles at this moment is left for the next time, so that nobody waits for a node that hangs.
DELETE FROM boots
WHERE id IN (
    SELECT id FROM boots
    WHERE good_until < (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AND id <> $1
    FOR UPDATE SKIP LOCKED
);
