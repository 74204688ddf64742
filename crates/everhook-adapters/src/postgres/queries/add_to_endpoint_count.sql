-- An organization has so many endpoints more, or fewer.
-- Index: the primary key. Lock: the row, taken by the caller before.
UPDATE organizations SET endpoint_count = endpoint_count + $2 WHERE id = $1;
