-- Notes which sequence numbers come next.
-- Index: the primary key. Lock: the rows, held by the caller.
UPDATE application_counters c SET next_sequence = n.next_sequence
FROM unnest($1::uuid[], $2::bigint[]) AS n (application_id, next_sequence)
WHERE c.application_id = n.application_id;
