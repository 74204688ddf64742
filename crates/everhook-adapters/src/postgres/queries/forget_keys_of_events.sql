-- Gives keys free that were taken for events which are not recorded after all.
-- Index: the primary key. Lock: the rows.
DELETE FROM idempotency_keys k
USING unnest($1::uuid[], $2::text[], $3::uuid[]) AS n (application_id, key, event_id)
WHERE k.application_id = n.application_id AND k.key = n.key AND k.event_id = n.event_id;
