-- What time is it for the store?
-- Index: none. Lock: none.
SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS store_time;
