-- Is a delivery of an event open in a lane: the one that is to be done again, or one that was made later?
-- Index: the primary key, made_later_by_event. Lock: the write lock, taken by the caller.
SELECT EXISTS (SELECT 1 FROM deliveries WHERE id = ?3 AND stage IN (0, 4, 5))
    OR EXISTS (
        SELECT 1 FROM deliveries INDEXED BY made_later_by_event
        WHERE event_id = ?1 AND (replay_of IS NOT NULL OR operation_id IS NOT NULL) AND lane = ?2 AND stage IN (0, 4, 5)
    );
