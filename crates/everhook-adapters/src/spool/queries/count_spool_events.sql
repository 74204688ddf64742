-- How many events does the spool hold, those that could not be forwarded included?
-- Index: none, all rows are counted, once when the spool meets another database. Lock: the write lock, which the one connection holds anyway.
SELECT (SELECT count(*) FROM spooled_events) + (SELECT count(*) FROM unforwarded) AS events;
