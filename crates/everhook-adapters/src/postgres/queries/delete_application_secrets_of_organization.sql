-- Deletes what signed the requests to the applications of a deleted organization.
-- Index: application_secrets_by_organization. Lock: the rows.
DELETE FROM application_secrets WHERE organization_id = $1;
