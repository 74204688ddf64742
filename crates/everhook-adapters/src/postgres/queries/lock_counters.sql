-- Where do the configurations and sequences of applications stand? A version is the sum of the application's and its organization's, which is read
-- without a lock: whoever publishes after a change of the organization was answered sees it.
-- Index: the primary keys. Lock: the rows of the counters, in the order of their ids, until the commit.
SELECT c.application_id, c.config_version + o.config_version AS config_version, c.next_sequence
FROM application_counters c
JOIN applications a ON a.id = c.application_id
JOIN organizations o ON o.id = a.organization_id
WHERE c.application_id = ANY($1) AND o.deleted_at IS NULL
ORDER BY c.application_id
FOR UPDATE OF c;
