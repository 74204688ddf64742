-- Which organization has this id?
-- Index: the primary key. Lock: none, a snapshot.
SELECT id, uid, name, created_at, limits FROM organizations WHERE id = ?1 AND deleted_at IS NULL;
