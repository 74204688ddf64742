-- Moves the attempts of deliveries to where they outlive their day.
-- Index: the primary keys. Lock: the rows.
UPDATE attempts a SET kept = true FROM unnest($1::uuid[]) AS u (id) WHERE a.delivery_id = u.id AND NOT a.kept;
