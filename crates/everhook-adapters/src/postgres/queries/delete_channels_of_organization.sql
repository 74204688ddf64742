-- Removes the channels of a deleted organization.
-- Index: the unique key (organization_id, name). Lock: the rows.
DELETE FROM channels WHERE organization_id = $1;
