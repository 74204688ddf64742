-- What does a version of a schedule say?
-- Index: the primary key. Lock: none.
SELECT definition FROM schedules WHERE version = $1;
