-- Which draw did a call make?
-- Index: the primary key. Lock: none, a snapshot.
SELECT request_id, organization_id, application_id, capability, drawn_at, seed, list_hash, list_length, picked FROM draws
WHERE request_id = ?2 AND organization_id = ?1;
