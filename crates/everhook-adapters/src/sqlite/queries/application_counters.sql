-- Where do an application's configuration and its sequence stand?
-- Index: the primary key. Lock: the write lock, taken by the caller.
SELECT config_version, next_sequence FROM applications WHERE id = ?1;
