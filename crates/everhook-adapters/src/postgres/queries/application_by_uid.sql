-- Which application of an organization has this uid?
-- Index: the unique key (organization_id, uid). Lock: none.
SELECT id, organization_id, uid, name, kind, created_at, strict_event_types, owner_email, base_url, health_path FROM applications WHERE organization_id = $1 AND uid = $2;
