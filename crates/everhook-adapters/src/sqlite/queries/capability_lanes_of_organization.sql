-- Which lanes of capabilities does an organization have? Their number is bounded when a manifest is put.
-- Index: lanes_of_capabilities. Lock: the write lock.
SELECT id FROM lanes WHERE organization_id = ?1 AND kind = 'capability';
