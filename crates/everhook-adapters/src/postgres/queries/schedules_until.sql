-- Up to which version are the next few after one?
-- Index: the primary key. Lock: none.
SELECT max(version) AS until FROM (SELECT version FROM schedules WHERE version > $1 ORDER BY version LIMIT $2) AS few;
