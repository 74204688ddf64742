-- Which endpoints of an application come next after an id?
-- Index: endpoints_by_application. Lock: the write lock, taken by the caller.
SELECT id FROM endpoints WHERE application_id = ?1 AND id > ?2 ORDER BY id LIMIT ?3;
