-- Which endpoints of an organization (or of one of its applications) can have deliveries? Deleted ones, too.
-- Index: lanes_by_organization. Lock: none, a snapshot.
SELECT id FROM lanes WHERE organization_id = ?1 AND (?2 IS NULL OR application_id = ?2) ORDER BY id;
