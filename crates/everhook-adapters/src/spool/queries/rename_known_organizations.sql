-- Takes a uid from the organizations that had it: another has it now.
-- Index: none, a few thousand rows at most are looked through, when something is learned. Lock: the write lock.
UPDATE known_organizations SET uid = NULL WHERE uid = ?1;
