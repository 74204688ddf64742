-- Removes some answers that have expired.
-- Index: cached_answers_by_expiry. Lock: the rows.
DELETE FROM cached_answers WHERE ctid = ANY (ARRAY(SELECT ctid FROM cached_answers WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2));
