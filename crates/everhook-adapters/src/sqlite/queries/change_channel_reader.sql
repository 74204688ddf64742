-- Says whether the channel of an e-mail address leads to an administrator.
-- Index: the primary key. Lock: the write lock.
UPDATE channels SET is_admin = ?2 WHERE id = ?1;
