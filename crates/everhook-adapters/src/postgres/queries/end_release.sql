-- Everything that was parked for this waits: nothing is looked for any more.
-- Index: the primary key. Lock: the row.
UPDATE releases SET look_at = NULL WHERE organization_id = $1 AND waits_for = $2;
