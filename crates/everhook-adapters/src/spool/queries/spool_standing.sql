-- How full is the spool?
-- Index: none, all rows are added up, once when it is opened. Lock: none.
SELECT
    (SELECT count(*) FROM spooled_events) AS events,
    (SELECT coalesce(sum(bytes), 0) FROM spooled_events) + (SELECT coalesce(sum(bytes), 0) FROM unforwarded) AS bytes,
    (SELECT count(*) FROM unforwarded) AS unforwarded;
