-- Whose are these endpoints?
-- Index: the primary key. Lock: none: an endpoint never moves.
SELECT DISTINCT application_id FROM endpoints WHERE id = ANY($1);
