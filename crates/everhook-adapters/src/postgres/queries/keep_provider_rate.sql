-- Keeps what is known of the limits of a provider, unless somebody changed it since it was read.
-- Index: the primary key. Lock: the row.
INSERT INTO provider_rates AS known (provider, revision, quarter_number, quarter_used, quarter_limit, day_number, day_used, day_limit)
VALUES ($1, $2::bigint + 1, $3, $4, $5, $6, $7, $8)
ON CONFLICT (provider) DO UPDATE SET
    revision = excluded.revision,
    quarter_number = excluded.quarter_number,
    quarter_used = excluded.quarter_used,
    quarter_limit = excluded.quarter_limit,
    day_number = excluded.day_number,
    day_used = excluded.day_used,
    day_limit = excluded.day_limit
WHERE known.revision = $2;
