-- Replaces what is sealed of an approval by the same, sealed otherwise, unless somebody changed it.
-- Index: the primary key. Lock: the row.
UPDATE approvals SET call = $2, data = $3
WHERE id = $1 AND call IS NOT DISTINCT FROM $4 AND data IS NOT DISTINCT FROM $5;
