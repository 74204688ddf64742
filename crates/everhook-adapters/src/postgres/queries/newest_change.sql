-- From which transaction on may changes still come?
-- Index: none. Lock: none.
SELECT pg_snapshot_xmin(pg_current_snapshot())::text AS cursor;
