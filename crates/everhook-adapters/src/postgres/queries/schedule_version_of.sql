-- Which version of a schedule has this definition, and is in use as far as anybody noticed?
-- Index: schedules_definition. Lock: none.
SELECT version FROM schedules WHERE definition = $1 AND unused_since IS NULL;
