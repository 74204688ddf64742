-- Of which application and organization is a lane, and under which numbers are those counted, if anything was?
-- Index: the primary key, lanes_by_id. Lock: the write lock, taken by the caller.
SELECT l.application_id, l.organization_id, a.lane AS application_lane, o.lane AS organization_lane
FROM lanes l
LEFT JOIN lanes a ON a.id = l.application_id
LEFT JOIN lanes o ON o.id = l.organization_id
WHERE l.lane = ?1;
