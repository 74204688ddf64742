-- As what are texts kept here?
-- Index: none. Lock: none.
SELECT current_setting('server_encoding') AS encoding;
