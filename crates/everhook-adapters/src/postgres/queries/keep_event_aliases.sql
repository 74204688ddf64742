-- Makes ids other names of events; nothing for those that are already.
-- Index: the primary key. Lock: the new rows.
INSERT INTO event_aliases (alias, event_id) SELECT * FROM unnest($1::uuid[], $2::uuid[]) ON CONFLICT (alias) DO NOTHING;
