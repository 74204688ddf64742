-- Notes deliveries that were not made with their events.
-- Index: the primary key. Lock: none but the new rows.
INSERT INTO made_later (event_id, lane, id) SELECT * FROM unnest($1::uuid[], $2::bigint[], $3::uuid[]);
