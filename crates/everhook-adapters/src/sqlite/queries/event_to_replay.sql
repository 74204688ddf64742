-- What must be known of an event of an organization to deliver it again?
-- Index: the primary key. Lock: the write lock, taken by the caller.
SELECT event_type, priority, sequence_number, erased_at IS NOT NULL AS is_erased FROM events WHERE id = ?1 AND organization_id = ?2;
