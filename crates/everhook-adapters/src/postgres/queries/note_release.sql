-- Notes that something came that deliveries may wait for.
-- Index: the primary key. Lock: the row.
INSERT INTO releases AS r (organization_id, waits_for, released_at, look_at) VALUES ($1, $2, $3, $4)
ON CONFLICT (organization_id, waits_for) DO UPDATE SET released_at = greatest(r.released_at, excluded.released_at), look_at = excluded.look_at;
