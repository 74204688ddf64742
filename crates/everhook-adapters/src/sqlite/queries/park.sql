-- Parks a delivery that an attempt was just settled of, unless what it waits for came since that attempt was begun: then it goes on waiting.
-- Index: the primary keys of deliveries, lanes and releases; enters the indexes of what is parked. Lock: the write lock.
UPDATE deliveries SET parkings = coalesce(parkings, 0) + 1,
    stage = CASE WHEN p.has_come THEN 0 ELSE 5 END,
    due_at = CASE WHEN p.has_come THEN due_at END,
    parked_organization_id = CASE WHEN NOT p.has_come THEN p.organization_id END,
    waits_for = CASE WHEN NOT p.has_come THEN ?2 END,
    expires_at = CASE WHEN NOT p.has_come THEN ?3 END,
    expires_into = CASE WHEN NOT p.has_come THEN ?4 END
FROM (
    SELECT l.organization_id, EXISTS (
            SELECT 1 FROM releases r WHERE r.organization_id = l.organization_id AND r.waits_for = ?2 AND r.released_at > ?5
        ) AS has_come
    FROM deliveries o JOIN lanes l ON l.lane = o.lane
    WHERE o.id = ?1
) AS p
WHERE deliveries.id = ?1 AND deliveries.stage = 0;
