-- Of which of these events is a delivery open in its lane: the one that is to be done again, or one that was made later?
-- Index: the primary keys. Lock: the counters of the applications, taken by the caller, hold up whoever would make one.
SELECT u.event_id, u.lane
FROM unnest($1::uuid[], $2::bigint[], $3::uuid[]) AS u (event_id, lane, of)
WHERE EXISTS (SELECT 1 FROM open_deliveries d WHERE d.lane = u.lane AND d.id = u.of)
    OR EXISTS (
        SELECT 1 FROM made_later m JOIN open_deliveries d ON d.lane = m.lane AND d.id = m.id WHERE m.event_id = u.event_id AND m.lane = u.lane
    );
