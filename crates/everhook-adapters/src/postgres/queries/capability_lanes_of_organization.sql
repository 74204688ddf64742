-- How many lanes of capabilities does an organization have, and how many of these are among them? Their number is bounded when a manifest is put.
-- Index: lanes_of_capabilities. Lock: none, a snapshot.
SELECT count(*) AS lanes, count(*) FILTER (WHERE id = ANY($2::uuid[])) AS known FROM lanes WHERE organization_id = $1 AND kind = 'capability';
