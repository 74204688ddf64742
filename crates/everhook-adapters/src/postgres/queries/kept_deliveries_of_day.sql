-- Which deliveries between two ids outlive their day?
-- Index: deliveries_kept_by_id. Lock: none.
SELECT id FROM deliveries_kept WHERE id > $1 AND id < $2 ORDER BY id LIMIT $3;
