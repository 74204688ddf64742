-- Which version of a schedule has this definition, and is in use as far as anybody noticed?
-- Index: the unique key (definition). Lock: none, a snapshot.
SELECT version FROM schedules WHERE definition = ?1 AND unused_since IS NULL;
