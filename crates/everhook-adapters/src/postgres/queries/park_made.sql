-- Parks deliveries that were just made, unless what they wait for has come: whoever has deliveries made parked uses a name once. Says which.
-- Index: the primary keys of open_deliveries and releases; enters the indexes of what is parked. Lock: none but the new rows.
UPDATE open_deliveries o SET stage = 5, due_at = NULL, waits_for = u.waits_for, parked_organization_id = u.organization_id
FROM unnest($1::bigint[], $2::uuid[], $3::uuid[], $4::text[]) AS u (lane, id, organization_id, waits_for)
WHERE o.lane = u.lane AND o.id = u.id AND o.stage IN (0, 4) AND NOT EXISTS (
        SELECT 1 FROM releases r WHERE r.organization_id = u.organization_id AND r.waits_for = u.waits_for
    )
RETURNING o.id;
