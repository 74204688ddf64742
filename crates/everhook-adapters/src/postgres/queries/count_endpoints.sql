-- How many endpoints does an organization have? Deleted ones do not count.
-- Index: the primary key. Lock: the organization, taken by the caller.
SELECT endpoint_count AS count FROM organizations WHERE id = $1;
