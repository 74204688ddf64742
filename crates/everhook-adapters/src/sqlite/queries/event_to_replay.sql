-- What must be known of an event of an organization to deliver it again?
-- Index: the primary keys. Lock: the write lock, taken by the caller.
SELECT e.event_type, e.priority, e.sequence_number, e.erased_at IS NOT NULL AS is_erased, x.ordering_key
FROM events e LEFT JOIN event_extras x ON x.event_id = e.id
WHERE e.id = ?1 AND e.organization_id = ?2;
