-- Tells the other nodes which queues to look at.
-- Index: the primary key. Lock: the one on notifications, for as long as this statement's commit takes.
SELECT pg_notify((SELECT hint_channel FROM installation WHERE singleton), $1);
