-- Forgets what boots that are over had not let go of: nobody reads it any more.
-- Index: the primary keys. Lock: the rows.
DELETE FROM departures d WHERE NOT EXISTS (SELECT 1 FROM boots b WHERE b.id = d.boot);
