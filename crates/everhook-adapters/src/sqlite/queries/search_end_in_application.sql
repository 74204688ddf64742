-- Which two endpoints of an application, deleted ones too, stand so many rows on between two ids, newest first (a page backward: oldest first)?
-- Index: endpoints_by_application, and nothing but the index. Lock: none, a snapshot.
SELECT id
FROM endpoints
WHERE application_id = ?1 AND id > ?2 AND id < ?3
ORDER BY id DESC
LIMIT 2 OFFSET ?4;
