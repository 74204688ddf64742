-- Makes a lease good for a while from now, and says what it holds, what it must let go of, and how the leases of others look.
-- Index: the primary keys. Lock: the row of the boot.
WITH clock AS (
    SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now
), renewed AS (
    UPDATE boots SET good_until = clock.now + $2, renewals = renewals + 1 FROM clock WHERE boots.id = $1 RETURNING boots.id
)
SELECT clock.now AS store_time,
    EXISTS (SELECT 1 FROM renewed) AS is_known,
    ARRAY(SELECT number FROM shards WHERE boot = $1) AS shards,
    ARRAY(SELECT name FROM duties WHERE boot = $1) AS duties,
    (SELECT count(*) FROM boots WHERE worker AND pool = $3 AND (good_until > clock.now OR id = $1)) AS workers,
    ARRAY(SELECT organization_id FROM departures WHERE boot = $1 ORDER BY organization_id) AS departing,
    ARRAY(SELECT moves FROM departures WHERE boot = $1 ORDER BY organization_id) AS departing_moves,
    ARRAY(SELECT id FROM boots WHERE id <> $1 ORDER BY id) AS others,
    ARRAY(SELECT renewals FROM boots WHERE id <> $1 ORDER BY id) AS other_renewals
FROM clock;
