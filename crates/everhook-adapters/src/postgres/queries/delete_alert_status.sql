-- Forgets an alert of which there is nothing to tell, if it stands as it was seen.
-- Index: the primary key. Lock: the row.
DELETE FROM alerts WHERE id = $1 AND revision = $2;
