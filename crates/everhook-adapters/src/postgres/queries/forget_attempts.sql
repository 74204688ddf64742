-- Removes the attempts of deliveries.
-- Index: the primary keys. Lock: the rows.
DELETE FROM attempts a USING unnest($1::uuid[]) AS u (id) WHERE a.delivery_id = u.id;
