-- Makes a version of a schedule, unless there is one. Waits for another that is being made of the same.
-- Index: schedules_definition. Lock: the row.
INSERT INTO schedules (definition) VALUES ($1) ON CONFLICT ON CONSTRAINT schedules_definition DO NOTHING RETURNING version;
