-- What must be known of events of an organization to deliver them again?
-- Index: the primary key. Lock: none; the counters of the applications, taken by the caller, hold up whoever would erase one.
SELECT id, event_type, priority, sequence_number, erased_at IS NOT NULL AS is_erased FROM events WHERE id = ANY($1) AND organization_id = $2;
