-- How many events of each application wait?
-- Index: spooled_events_by_application, all of it, once when the file is opened. Lock: none.
SELECT application_id, count(*) AS events FROM spooled_events GROUP BY application_id;
