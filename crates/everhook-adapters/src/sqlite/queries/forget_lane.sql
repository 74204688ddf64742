-- Removes a lane that is named by nothing any more.
-- Index: lanes_by_id. Lock: the write lock.
DELETE FROM lanes WHERE id = ?1;
