-- Removes some draws that are old.
-- Index: draws_by_age. Lock: the rows.
DELETE FROM draws WHERE request_id = ANY (ARRAY(SELECT request_id FROM draws WHERE drawn_at < $1 ORDER BY drawn_at LIMIT $2));
