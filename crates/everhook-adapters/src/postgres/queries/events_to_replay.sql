-- What must be known of events of an organization to deliver them again?
-- Index: the primary key, in the one partition that an id can be in. Lock: none; the counters of the applications, taken by the caller, hold up
-- whoever would erase one.
SELECT e.*
FROM unnest($1::uuid[]) AS u (id)
    CROSS JOIN LATERAL (
        SELECT id, event_type, ordering_key, priority, sequence_number, erased_at IS NOT NULL AS is_erased
        FROM events
        WHERE id = u.id AND organization_id = $2
        OFFSET 0
    ) AS e;
