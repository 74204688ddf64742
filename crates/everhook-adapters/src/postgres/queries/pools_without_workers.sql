-- Which pools do organizations belong to that no living boot sends for?
-- Index: organizations_by_pool, one look-up a pool; boots, which are few, walked for each. Lock: none.
WITH RECURSIVE pools AS (
    (
        SELECT worker_pool FROM organizations ORDER BY worker_pool LIMIT 1
    )
    UNION ALL
    SELECT n.worker_pool
    FROM pools p
        CROSS JOIN LATERAL (
            SELECT o.worker_pool FROM organizations o WHERE o.worker_pool > p.worker_pool ORDER BY o.worker_pool LIMIT 1
        ) AS n
)
SELECT p.worker_pool FROM pools p
WHERE NOT EXISTS (
    SELECT 1 FROM boots b
    WHERE b.pool = p.worker_pool AND b.worker AND b.good_until > (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
);
