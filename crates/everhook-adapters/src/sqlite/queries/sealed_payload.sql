-- What is sealed of an event?
-- Index: the primary keys. Lock: none.
SELECT p.body, r.headers FROM payloads p LEFT JOIN received_events r ON r.event_id = p.event_id WHERE p.number = ?1 AND p.event_id = ?2;
