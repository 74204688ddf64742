-- Which living nodes seal with another key, or have not said with which? One that was silent for less than two minutes may still write.
-- Index: none; boots are few. Lock: none.
SELECT DISTINCT node FROM boots
WHERE seals_with IS DISTINCT FROM $1 AND good_until > (extract(epoch FROM clock_timestamp()) * 1000000)::bigint - 120000000
ORDER BY node LIMIT 100;
