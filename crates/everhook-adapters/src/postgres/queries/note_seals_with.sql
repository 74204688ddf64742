-- Notes which key a node seals with.
-- Index: the primary key. Lock: the row.
UPDATE boots SET seals_with = $2 WHERE id = $1 AND seals_with <> $2;
