-- Tells the other nodes which queues to look at.
-- Index: none. Lock: the one on notifications, for as long as this statement's commit takes.
SELECT pg_notify($1, $2);
