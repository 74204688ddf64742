-- Takes a uid from the applications of an organization that had it: another has it now.
-- Index: none, a few thousand rows at most are looked through, when something is learned. Lock: the write lock.
UPDATE known_applications SET uid = NULL WHERE organization_id = ?1 AND uid = ?2;
