-- Replaces the secrets of an application by the same, sealed otherwise, unless somebody changed them.
-- Index: the primary key. Lock: the row.
UPDATE application_secrets SET secret = $2, previous_secret = $3
WHERE application_id = $1 AND secret = $4 AND previous_secret IS NOT DISTINCT FROM $5;
