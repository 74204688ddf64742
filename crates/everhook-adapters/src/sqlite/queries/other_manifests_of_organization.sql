-- How many manifests does an organization have beside that of one application, and how many bytes have their documents?
-- Index: manifests_by_organization. Lock: the write lock.
SELECT count(*) AS manifests, coalesce(sum(octet_length(document)), 0) AS bytes FROM manifests WHERE organization_id = ?1 AND application_id <> ?2;
