-- Deletes the health checks of a deleted organization.
-- Index: app_checks_by_organization. Lock: the rows.
DELETE FROM app_checks WHERE organization_id = $1;
