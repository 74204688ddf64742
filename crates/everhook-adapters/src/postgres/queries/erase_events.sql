-- Removes the data of events that have any; which of them had?
-- Index: the primary key. Lock: the rows; the counters of their applications are taken by the caller before.
UPDATE events SET erased_at = $2, body = NULL, labels = NULL, headers = NULL, ordering_key = NULL, external_user_id = NULL, received_headers = NULL
WHERE id = ANY($1) AND erased_at IS NULL
RETURNING id;
