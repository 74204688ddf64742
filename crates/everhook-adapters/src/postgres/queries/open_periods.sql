-- When was an endpoint's breaker open, since an instant?
-- Index: the primary key. Lock: none.
SELECT opened_at, closed_at FROM open_periods WHERE endpoint_id = $1 AND (closed_at IS NULL OR closed_at > $2) ORDER BY opened_at LIMIT $3;
