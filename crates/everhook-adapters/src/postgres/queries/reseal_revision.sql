-- Replaces what is sealed of a revision by the same, sealed otherwise.
-- Index: the primary key. Lock: the row.
UPDATE endpoint_revisions SET headers = $3, secret = $4, previous_secret = $5
WHERE endpoint_id = $1 AND number = $2;
