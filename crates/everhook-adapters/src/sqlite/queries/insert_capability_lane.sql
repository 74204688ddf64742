-- Makes the lane of a capability, unless it has one from before.
-- Index: the primary key, lanes_by_id. Lock: the write lock.
INSERT INTO lanes (lane, id, kind, organization_id, application_id)
SELECT (SELECT coalesce(max(lane), 0) + 1 FROM lanes), ?1, 'capability', ?2, ?3
WHERE NOT EXISTS (SELECT 1 FROM lanes WHERE id = ?1);
