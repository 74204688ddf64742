-- How many endpoints are disabled, of all organizations?
-- Index: disabled_endpoints, all of it. Lock: none.
SELECT count(*) AS count FROM endpoints WHERE state = 'disabled';
