-- Which of these ids are events that were accepted since an instant?
-- Index: the primary key. Lock: none.
SELECT id, application_id, deliveries, sequence_number FROM events WHERE id = ANY($1) AND created_at >= $2;
