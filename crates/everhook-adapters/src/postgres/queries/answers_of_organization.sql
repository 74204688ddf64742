-- How many answers do the capabilities of an organization have, and how many bytes of them?
-- Index: lanes_of_capabilities, cached_answers_by_age. Lock: none, a snapshot.
SELECT c.lane_id, count(*) AS answers, sum(octet_length(c.data))::bigint AS bytes
FROM lanes l JOIN cached_answers c ON c.lane_id = l.id
WHERE l.organization_id = $1 AND l.kind = 'capability'
GROUP BY c.lane_id;
