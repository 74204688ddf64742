-- Removes a channel of a service. Its lane stays for the deliveries that name it.
-- Index: the primary key. Lock: the row.
DELETE FROM channels WHERE id = $1 AND organization_id = $2 AND kind <> 'email';
