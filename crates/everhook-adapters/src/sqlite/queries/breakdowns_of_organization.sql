-- How many parts of a kind are counted in an organization? Up to a number.
-- Index: lanes_of_breakdowns. Lock: the write lock, taken by the caller.
SELECT count(*) AS parts FROM (
    SELECT 1 FROM lanes WHERE organization_id = ?1 AND kind = ?2 AND kind IN ('event_type', 'retry_schedule', 'source') LIMIT ?3
);
