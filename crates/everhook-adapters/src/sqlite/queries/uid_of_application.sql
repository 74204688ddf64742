-- Which uid does an application of an organization have?
-- Index: the primary key. Lock: none, a snapshot.
SELECT uid FROM applications WHERE organization_id = ?1 AND id = ?2 AND uid IS NOT NULL;
