-- Takes a uid from an endpoint whose application was deleted and that is not deleted yet: it can be given again at once.
-- Index: endpoints_by_uid, and the primary key of `applications`. Lock: the row.
UPDATE endpoints SET uid = NULL
WHERE organization_id = $1 AND uid = $2 AND state <> 'deleted'
    AND NOT EXISTS (SELECT 1 FROM applications a WHERE a.id = endpoints.application_id);
