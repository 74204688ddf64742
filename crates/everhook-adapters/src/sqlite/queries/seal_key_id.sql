-- Which key are secrets sealed with?
-- Index: the primary key. Lock: none.
SELECT key_id FROM sealing WHERE singleton = 1;
