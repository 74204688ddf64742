-- Which lanes have the capabilities of an organization's applications, and by which schedule is retried what is sent there? Their number is bounded by the manifests.
-- Index: lanes_of_capabilities, the primary key of manifests. Lock: none, a snapshot.
SELECT l.id, l.application_id, l.job_schedule
FROM lanes l JOIN manifests m ON m.application_id = l.application_id
WHERE l.organization_id = $1 AND l.kind = 'capability' AND l.job_schedule IS NOT NULL
ORDER BY l.id;
