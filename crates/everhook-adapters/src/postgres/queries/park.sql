-- Parks deliveries that attempts were just settled of, unless what they wait for came since those attempts were begun: then they go on waiting.
-- Index: the primary keys of open_deliveries, lanes and releases; enters the indexes of what is parked. Lock: the rows, held by the caller since they were
-- settled.
UPDATE open_deliveries o SET parkings = coalesce(o.parkings, 0) + 1,
    stage = CASE WHEN p.has_come THEN 0 ELSE 5 END,
    due_at = CASE WHEN p.has_come THEN o.due_at END,
    parked_organization_id = CASE WHEN NOT p.has_come THEN p.organization_id END,
    waits_for = CASE WHEN NOT p.has_come THEN p.waits_for END,
    expires_at = CASE WHEN NOT p.has_come THEN p.expires_at END,
    expires_into = CASE WHEN NOT p.has_come THEN p.expires_into END
FROM (
    SELECT u.*, l.organization_id, EXISTS (
            SELECT 1 FROM releases r WHERE r.organization_id = l.organization_id AND r.waits_for = u.waits_for AND r.released_at > u.begun_at
        ) AS has_come
    FROM unnest($1::bigint[], $2::uuid[], $3::text[], $4::bigint[], $5::text[], $6::bigint[])
            AS u (lane, id, waits_for, expires_at, expires_into, begun_at)
        JOIN lanes l ON l.lane = u.lane
) AS p
WHERE o.lane = p.lane AND o.id = p.id AND o.stage = 0;
