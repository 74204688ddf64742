-- Whose are these lanes?
-- Index: the unique key on lane. Lock: none: an endpoint never moves.
SELECT DISTINCT application_id FROM lanes WHERE lane = ANY($1);
