-- Which application of an organization has this name?
-- Index: the unique key (organization_id, name). Lock: none, a snapshot.
SELECT id, organization_id, uid, name, kind, created_at, strict_event_types, owner_email, base_url, health_path FROM applications WHERE organization_id = ?1 AND name = ?2;
