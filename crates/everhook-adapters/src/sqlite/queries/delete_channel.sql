-- Removes a channel. Its lane stays for the deliveries that name it.
-- Index: the primary key. Lock: the write lock.
DELETE FROM channels WHERE id = ?1;
