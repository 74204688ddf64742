-- What happened at endpoints, in numbers. Conventions as in the first migration.

-- One row for each endpoint and minute with attempts. Read by endpoint, a stretch of minutes at a time.
CREATE TABLE rollups (
    -- The endpoint's number.
    lane INTEGER NOT NULL,
    -- Minutes since the epoch.
    minute INTEGER NOT NULL,
    successes INTEGER NOT NULL,
    -- Failures by category.
    timeout INTEGER NOT NULL,
    server_error INTEGER NOT NULL,
    client_error INTEGER NOT NULL,
    network INTEGER NOT NULL,
    dns INTEGER NOT NULL,
    tls INTEGER NOT NULL,
    rate_limit INTEGER NOT NULL,
    payload_too_large INTEGER NOT NULL,
    redirect INTEGER NOT NULL,
    blocked_address INTEGER NOT NULL,
    duration_sum INTEGER NOT NULL,
    -- For each bucket that has something its number (1 byte) and its count (4, little endian).
    durations BLOB NOT NULL,
    last_success_at INTEGER,
    last_failure_at INTEGER,
    PRIMARY KEY (lane, minute)
) STRICT, WITHOUT ROWID;

-- How each endpoint does since its last success.
CREATE TABLE endpoint_standing (
    lane INTEGER PRIMARY KEY,
    consecutive_failures INTEGER NOT NULL,
    first_failure_at INTEGER,
    last_failure_at INTEGER,
    last_success_at INTEGER,
    CHECK ((consecutive_failures = 0) = (first_failure_at IS NULL))
) STRICT;
