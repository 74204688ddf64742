-- Holds up other changes of an organization's configuration.
-- Index: none. Lock: the organization, by a number made of its id, until the commit.
SELECT pg_advisory_xact_lock($1);
