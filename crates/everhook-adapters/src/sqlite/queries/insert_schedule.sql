-- Makes a version of a schedule, or takes one into use again.
-- Index: the unique key (definition). Lock: the write lock.
INSERT INTO schedules (definition) VALUES (?1) ON CONFLICT (definition) DO UPDATE SET unused_since = NULL RETURNING version;
