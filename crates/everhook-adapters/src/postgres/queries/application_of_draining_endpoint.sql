-- To which application does an endpoint belong that still sends what gathered during its pause?
-- Index: the primary key. Lock: none.
SELECT application_id FROM endpoints WHERE id = $1 AND drain_per_second IS NOT NULL;
