-- Which application is an organization's built-in one of this kind? The oldest, as it was made with the organization.
-- Index: applications_by_organization. Lock: none.
SELECT id, organization_id, uid, name, kind, created_at, strict_event_types, owner_email, base_url, health_path FROM applications WHERE organization_id = $1 AND kind = $2 ORDER BY id LIMIT 1;
