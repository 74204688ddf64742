-- Notes that the hours and days of a lane have counted its minutes before one.
-- Index: unfolded_rollups, then the primary key. Lock: the write lock.
UPDATE rollups SET folded = 1 WHERE lane = ?1 AND folded = 0 AND minute < ?2;
