-- Holds up whoever else makes or ends ordered deliveries of these lanes.
-- Index: the unique key on lane. Lock: the rows of their endpoints, in the order of lanes, until the commit.
SELECT 1 FROM lanes WHERE lane = ANY($1) ORDER BY lane FOR NO KEY UPDATE;
