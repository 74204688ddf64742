-- Where are the deliveries that were made with an event of an organization?
-- Index: the primary key. Lock: none.
SELECT id, application_id, event_type, created_at, deliveries, first_delivery_id, last_delivery_id FROM events WHERE id = $2 AND organization_id = $1;
