-- How many dead letters do applications have, counted up to a limit each? From one application to the next, so that it costs as much as is counted.
-- Index: dead_letters_of_applications, then primary keys. Lock: none.
WITH RECURSIVE counted (application_id, number) AS (
    SELECT (
        SELECT d.application_id FROM dead_letters d
        WHERE d.status = 'dead' AND d.kind <> 'channel' AND d.application_id > $1
        ORDER BY d.application_id LIMIT 1
    ), 1::bigint
    UNION ALL
    SELECT (
        SELECT d.application_id FROM dead_letters d
        WHERE d.status = 'dead' AND d.kind <> 'channel' AND d.application_id > c.application_id
        ORDER BY d.application_id LIMIT 1
    ), c.number + 1
    FROM counted c
    WHERE c.application_id IS NOT NULL AND c.number < $3::bigint
)
SELECT c.application_id AS id, p.organization_id, p.kind, (
    SELECT count(*) FROM (
        SELECT 1 FROM dead_letters d WHERE d.status = 'dead' AND d.kind <> 'channel' AND d.application_id = c.application_id LIMIT $2
    ) AS counted_rows
) AS value
FROM counted c LEFT JOIN applications p ON p.id = c.application_id
WHERE c.application_id IS NOT NULL
ORDER BY c.number;
