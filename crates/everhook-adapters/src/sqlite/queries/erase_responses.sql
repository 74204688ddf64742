-- Removes what an endpoint answered to the attempts of a delivery, but for the status.
-- Index: the primary key. Lock: the write lock.
UPDATE attempts SET response_headers = x'', response_body_sample = x'' WHERE delivery_id = ?1 AND response_status IS NOT NULL;
