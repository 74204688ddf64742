-- Under which numbers are the applications and organizations of these lanes counted, if anything was?
-- Index: the primary key, lanes_by_id. Lock: none.
SELECT l.lane, a.lane AS application_lane, o.lane AS organization_lane
FROM lanes l
LEFT JOIN lanes a ON a.id = l.application_id
LEFT JOIN lanes o ON o.id = l.organization_id
WHERE l.lane = ANY($1);
