-- Takes a version of a schedule into use again, if there is one of this definition.
-- Index: schedules_definition. Lock: the row.
UPDATE schedules SET unused_since = NULL WHERE definition = $1 RETURNING version;
