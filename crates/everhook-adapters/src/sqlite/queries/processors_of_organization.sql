-- Which sources of an organization have a processor? Their number is bounded where sources are made.
-- Index: sources_with_processor. Lock: none, a snapshot.
SELECT id, application_id, kind, processor, processor_schedule
FROM sources
WHERE organization_id = ?1 AND processor IS NOT NULL
ORDER BY id;
