-- Which organizations are known?
-- Index: none, all rows are read, once when the file is opened. Lock: none.
SELECT id, uid FROM known_organizations;
