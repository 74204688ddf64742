-- Records how an event came in.
-- Index: the primary key, received_by_source, received_by_user. Lock: the write lock.
INSERT INTO received_events (event_id, source_id, external_user_id, duplicate_of, headers) VALUES (?1, ?2, ?3, ?4, ?5);
