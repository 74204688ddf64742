-- Ends boots that are overdue, unless they were renewed since they were found to be.
-- Index: the primary key. Lock: the rows; one that settles at this moment is left for the next time, so that nobody waits for a node that hangs.
DELETE FROM boots
WHERE id IN (
    SELECT b.id FROM boots b JOIN unnest($2::uuid[], $3::bigint[]) AS overdue (id, renewals) ON overdue.id = b.id
    WHERE b.renewals = overdue.renewals AND b.id <> $1
    FOR UPDATE OF b SKIP LOCKED
);
