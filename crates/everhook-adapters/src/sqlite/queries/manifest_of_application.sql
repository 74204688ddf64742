-- Which manifest does an application have?
-- Index: the primary key. Lock: none, a snapshot.
SELECT application_id, organization_id, version, document, updated_at, owner_email FROM manifests WHERE application_id = ?1;
