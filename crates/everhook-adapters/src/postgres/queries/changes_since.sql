-- What was changed by transactions from this one on? And was anything of that forgotten, or is this another server than it was?
-- The place to go on from is the oldest transaction that is still open: what came behind it is told now, and once more when it has ended.
-- What was erased has a limit of its own: it must be known event by event.
-- Index: the primary key. Lock: none.
SELECT c.kind, c.id, c.application_id, c.transaction::text AS transaction, s.cursor::text AS cursor,
    (f.until > $1::text::xid8 AND f.until <= s.cursor) OR s.cursor < $1::text::xid8 AS is_forgotten
FROM (SELECT pg_snapshot_xmin(pg_current_snapshot()) AS cursor) AS s
    CROSS JOIN forgotten_changes f
    LEFT JOIN LATERAL (
        (
            SELECT * FROM changes WHERE transaction >= $1::text::xid8 AND kind <> 'erased'
            ORDER BY transaction, number LIMIT $2
        )
        UNION ALL
        (
            SELECT * FROM changes WHERE transaction >= $1::text::xid8 AND kind = 'erased'
            ORDER BY transaction DESC, number DESC LIMIT $3
        )
    ) AS c ON true
ORDER BY c.transaction, c.number;
