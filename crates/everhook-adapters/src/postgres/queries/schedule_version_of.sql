-- Which version of a schedule has this definition?
-- Index: schedules_definition. Lock: none.
SELECT version FROM schedules WHERE definition = $1;
