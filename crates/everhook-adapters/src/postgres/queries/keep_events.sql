-- Moves events to where they outlive their day.
-- Index: the primary keys. Lock: the rows.
UPDATE events e SET kept = true FROM unnest($1::uuid[]) AS u (id) WHERE e.id = u.id AND NOT e.kept;
