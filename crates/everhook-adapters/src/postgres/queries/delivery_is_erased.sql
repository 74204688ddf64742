-- Was a delivery cancelled because its event was erased? Not, if the boot that asks (if it is one) is no longer alive.
-- Index: the primary keys. Lock: none: what has ended stays as it is.
SELECT EXISTS (SELECT 1 FROM deliveries WHERE lane = $1 AND id = $2 AND stage = 3 AND cause = 'erased')
    AND ($3::uuid IS NULL OR EXISTS (SELECT 1 FROM boots WHERE id = $3)) AS is_erased;
