-- Removes events. What belongs to them went before.
-- Index: the primary keys. Lock: the rows.
DELETE FROM events e USING unnest($1::uuid[]) AS u (id) WHERE e.id = u.id;
