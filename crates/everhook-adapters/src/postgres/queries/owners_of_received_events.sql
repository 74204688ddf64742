-- Which of these events came through a source, and whose are they?
-- Index: the primary key. Lock: none.
SELECT id, organization_id FROM events WHERE id = ANY ($1::uuid[]) AND source_id IS NOT NULL;
