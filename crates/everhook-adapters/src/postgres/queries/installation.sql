-- Which installation is this?
-- Index: the primary key. Lock: none.
SELECT id FROM installation WHERE singleton;
