-- Has the health of an application checked at this URL. One that is checked already keeps its turn and what was found.
-- Index: the primary key. Lock: the write lock.
INSERT INTO app_checks (application_id, organization_id, url, next_at) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (application_id) DO UPDATE SET url = excluded.url;
