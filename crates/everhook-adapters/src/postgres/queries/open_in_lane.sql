-- Is anything open for a lane?
-- Index: the primary key. Lock: none; the counters of the application, taken by the caller, keep new ones away.
SELECT EXISTS (SELECT 1 FROM open_deliveries WHERE lane = $1) AS is_open;
