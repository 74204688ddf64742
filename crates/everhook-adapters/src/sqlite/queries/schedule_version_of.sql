-- Which version of a schedule has this definition?
-- Index: the unique key (definition). Lock: none, a snapshot.
SELECT version FROM schedules WHERE definition = ?1;
