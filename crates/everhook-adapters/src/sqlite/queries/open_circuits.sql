-- Which breakers are open that nobody opened by hand, after an id?
-- Index: open_circuits, then primary keys. Lock: none, a snapshot.
SELECT b.endpoint_id AS id, l.kind, l.organization_id, l.application_id
FROM circuit_breakers b INDEXED BY open_circuits
    CROSS JOIN lanes l ON l.id = b.endpoint_id
    CROSS JOIN applications p ON p.id = l.application_id
    LEFT JOIN endpoints e ON e.id = b.endpoint_id
WHERE b.stage IN ('open', 'half_open') AND b.endpoint_id > ?1 AND p.kind <> 'operational'
    AND (l.kind = 'capability' OR (l.kind = 'endpoint' AND e.state = 'enabled' AND e.paused_at IS NULL))
ORDER BY b.endpoint_id
LIMIT ?2;
