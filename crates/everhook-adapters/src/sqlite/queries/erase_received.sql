-- Removes what a provider said of an event beside its data.
-- Index: the primary key; leaves received_by_user. Lock: the write lock.
UPDATE received_events SET external_user_id = NULL, headers = NULL WHERE event_id = ?1;
