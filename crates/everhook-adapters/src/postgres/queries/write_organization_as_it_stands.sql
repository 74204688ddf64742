-- Writes a row as it stands, to see whether the store takes writes.
-- Index: the primary key. Lock: the row.
UPDATE organizations SET name = name WHERE id = $1;
