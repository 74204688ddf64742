-- Makes a lease good for a while from now, and says what it holds.
-- Index: the primary keys. Lock: the row of the boot.
WITH clock AS (
    SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now
), renewed AS (
    UPDATE boots SET good_until = clock.now + $2 FROM clock WHERE boots.id = $1 RETURNING boots.id
)
SELECT clock.now AS store_time,
    EXISTS (SELECT 1 FROM renewed) AS is_known,
    ARRAY(SELECT number FROM shards WHERE boot = $1) AS shards,
    ARRAY(SELECT name FROM duties WHERE boot = $1) AS duties,
    (SELECT count(*) FROM boots WHERE worker AND (good_until > clock.now OR id = $1)) AS workers
FROM clock;
