-- Replaces an event's data and kept headers by the same, sealed otherwise.
-- Index: the primary key. Lock: the write lock.
UPDATE unforwarded SET body = ?3, received_headers = ?4 WHERE position = ?1 AND id = ?2;
