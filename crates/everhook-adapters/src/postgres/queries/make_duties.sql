-- Sees to it that there are rows for these duties.
-- Index: the primary key. Lock: none but the new rows.
INSERT INTO duties (name) SELECT unnest($1::text[]) ON CONFLICT (name) DO NOTHING;
