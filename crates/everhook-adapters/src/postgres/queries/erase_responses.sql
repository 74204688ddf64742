-- Removes what endpoints answered to the attempts of deliveries, but for the status.
-- Index: the primary key. Lock: the rows.
UPDATE attempts SET response_headers = '', response_body_sample = '' WHERE delivery_id = ANY($1) AND response_status IS NOT NULL;
