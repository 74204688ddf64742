-- An organization has one more application.
-- Index: the primary key. Lock: the row, taken by the caller before.
UPDATE organizations SET application_count = application_count + 1 WHERE id = $1;
