-- Which uid does an endpoint of an organization have? A deleted one, too.
-- Index: the primary key. Lock: none, a snapshot.
SELECT uid FROM endpoints WHERE organization_id = ?1 AND id = ?2 AND uid IS NOT NULL;
