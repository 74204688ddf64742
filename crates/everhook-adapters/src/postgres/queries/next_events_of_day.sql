-- Which events of a day's partition come after an id, whose are they, and did they come through a source?
-- Index: the primary key of the partition. Lock: none.
SELECT id, organization_id, source_id IS NOT NULL AS is_received FROM {events} WHERE id > $1 ORDER BY id LIMIT $2;
