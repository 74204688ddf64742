-- Makes the rows of endpoints that have none yet, with nothing to show.
-- Index: the primary key. Lock: the new rows, in the order of the key, until the commit.
INSERT INTO endpoint_activity (lane, consecutive_failures) SELECT lane, 0 FROM unnest($1::bigint[]) AS n (lane) ORDER BY lane ON CONFLICT DO NOTHING;
