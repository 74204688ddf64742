-- Which of these events are there (of an organization, if one is named), whose are they, and how many deliveries were made with them?
-- Index: the primary key. Lock: none: an event never moves.
SELECT id, application_id, deliveries FROM events WHERE id = ANY($1) AND ($2::uuid IS NULL OR organization_id = $2);
