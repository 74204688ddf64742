-- Parks deliveries that were just made for an event, from one id to another, unless what they wait for has come: whoever has deliveries made parked uses a name once.
-- Index: the primary keys of deliveries, events, lanes and releases; enters the indexes of what is parked. Lock: the write lock.
UPDATE deliveries SET stage = 5, due_at = NULL, waits_for = ?4,
    parked_organization_id = (SELECT l.organization_id FROM lanes l WHERE l.lane = deliveries.lane)
WHERE id BETWEEN ?2 AND ?3 AND event_id = ?1 AND stage IN (0, 4) AND attempts = 0
    AND NOT EXISTS (
        SELECT 1 FROM events e JOIN releases r ON r.organization_id = e.organization_id AND r.waits_for = ?4
        WHERE e.id = ?1
    );
