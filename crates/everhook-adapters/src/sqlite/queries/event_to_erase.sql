-- Is there such an event of an organization (of any, if none is named), where is its data, and when was that erased?
-- Index: the primary key. Lock: the write lock, taken by the caller.
SELECT payload, erased_at FROM events WHERE id = ?1 AND (?2 IS NULL OR organization_id = ?2);
