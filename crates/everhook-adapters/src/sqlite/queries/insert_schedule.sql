-- Makes a version of a schedule.
-- Index: the unique key (definition). Lock: the write lock.
INSERT INTO schedules (definition) VALUES (?1) RETURNING version;
