-- How many applications does an organization have beside the built-in ones?
-- Index: the primary key. Lock: the organization, taken by the caller.
SELECT application_count AS count FROM organizations WHERE id = $1;
