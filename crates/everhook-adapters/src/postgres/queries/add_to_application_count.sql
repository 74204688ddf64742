-- An organization has one application more, or fewer.
-- Index: the primary key. Lock: the row, taken by the caller before.
UPDATE organizations SET application_count = application_count + $2 WHERE id = $1;
