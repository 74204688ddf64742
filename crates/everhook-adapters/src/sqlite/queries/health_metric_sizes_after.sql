-- Which metrics are next, how is what they were made of kept, and how large is it? A size is known without reading what it is of.
-- Index: the primary key. Lock: none.
SELECT id, coalesce(raw_encoding, 0) AS encoding, coalesce(length(raw), 0) AS bytes FROM health_metrics WHERE id > ?1 ORDER BY id LIMIT ?2;
