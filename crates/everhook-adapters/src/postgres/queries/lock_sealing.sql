-- Waits until nobody else changes how sealing stands.
-- Index: the primary key. Lock: the row, until the commit.
SELECT 1 FROM sealing WHERE singleton FOR UPDATE;
