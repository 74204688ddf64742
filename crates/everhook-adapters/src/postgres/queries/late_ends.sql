-- Which events have deliveries in some pages of a day's partition that ended after an instant? The names of partitions and pages are filled in.
-- Index: none, these pages are read. Lock: none.
SELECT DISTINCT event_id FROM {deliveries} WHERE ctid >= '({page},0)' AND ctid < '({until},0)' AND ended_at >= $1;
