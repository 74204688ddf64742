-- Writes a row as it stands, to see whether the store takes writes.
-- Index: the primary key. Lock: the write lock.
UPDATE organizations SET name = name WHERE id = ?1;
