-- Which endpoints of an application come next after an id?
-- Index: endpoints_by_application. Lock: none.
SELECT id FROM endpoints WHERE application_id = $1 AND id > $2 ORDER BY application_id, id LIMIT $3;
