-- How does sealing stand?
-- Index: the primary key. Lock: none.
SELECT key_id, from_key_id, is_cancelled, pass, kind, after_id, after_number, resealed_in_pass, looked_at, resealed, unreadable, began_at, not_before,
    ended_at
FROM sealing WHERE singleton = 1;
