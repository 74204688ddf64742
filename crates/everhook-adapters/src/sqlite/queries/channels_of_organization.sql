-- Which channels has an organization? Their number is bounded where they are made.
-- Index: the unique key (organization_id, kind, address). Lock: none, a snapshot.
SELECT id, address, retry_schedule FROM channels WHERE organization_id = ?1 ORDER BY kind, address;
