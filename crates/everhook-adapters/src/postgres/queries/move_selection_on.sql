-- Notes what an operation has selected; its phase stays if none is given.
-- Index: the primary key. Lock: the row, until the commit.
UPDATE operations
SET total = total + $2, skipped = skipped + $3, phase = coalesce($4::text, phase), selected_until = coalesce($5::uuid, selected_until)
WHERE id = $1;
