-- In which lanes are deliveries of an organization that were made parked for this, and have an order? Looked at before any of them is locked.
-- Index: parked_by_wait. Lock: none.
SELECT DISTINCT d.lane
FROM (
    SELECT lane, order_key, attempts FROM open_deliveries
    WHERE stage = 5 AND parked_organization_id = $1 AND waits_for = $2
    ORDER BY id
    LIMIT $3
) AS d
WHERE d.order_key IS NOT NULL AND d.attempts = 0;
