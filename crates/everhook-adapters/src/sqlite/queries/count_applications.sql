-- How many applications does an organization have beside the built-in ones?
-- Index: the primary key. Lock: the write lock, taken by the caller.
SELECT application_count FROM organizations WHERE id = ?1;
