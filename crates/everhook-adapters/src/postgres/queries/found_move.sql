-- Which data folder was moved here, and is it all here?
-- Index: the primary key. Lock: none.
SELECT source, fingerprint, finished_at FROM moves;
