-- How many bytes are in the spool, and how many events were set aside?
-- Index: none, all rows are added up, once when it is opened. Lock: none.
SELECT
    (SELECT coalesce(sum(bytes), 0) FROM spooled_events) + (SELECT coalesce(sum(bytes), 0) FROM unforwarded) AS bytes,
    (SELECT count(*) FROM unforwarded) AS unforwarded;
