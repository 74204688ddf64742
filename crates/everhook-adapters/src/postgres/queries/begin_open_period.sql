-- A breaker opened.
-- Index: the primary key. Lock: the row, held by the row of the breaker before it.
INSERT INTO open_periods (endpoint_id, opened_at) VALUES ($1, $2) ON CONFLICT DO NOTHING;
