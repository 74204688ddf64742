-- Forgets which deliveries of events were made later.
-- Index: the primary key. Lock: the rows.
DELETE FROM made_later WHERE event_id = ANY($1);
