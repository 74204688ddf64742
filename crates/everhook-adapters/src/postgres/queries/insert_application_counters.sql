-- Gives an application its counters: the first version, and nothing published.
-- Index: the primary key. Lock: the row.
INSERT INTO application_counters (application_id) VALUES ($1);
