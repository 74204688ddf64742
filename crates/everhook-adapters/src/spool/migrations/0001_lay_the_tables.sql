-- The spool's file: events that wait for the store, and what the node remembers of its publishers.
-- Instants are microseconds since 1970. Ids are 16 bytes.

CREATE TABLE spooled_events (
    -- The order in which they were accepted, and in which those of an application are forwarded. Never given twice.
    position INTEGER PRIMARY KEY AUTOINCREMENT,
    id BLOB NOT NULL CHECK (length(id) = 16),
    organization_id BLOB NOT NULL,
    application_id BLOB NOT NULL CHECK (length(application_id) = 16),
    event_type TEXT NOT NULL,
    timestamp INTEGER NOT NULL,
    idempotency_key TEXT NOT NULL,
    -- Since when a key that the publisher gave is looked for in the store. NULL: the key is ours.
    valid_since INTEGER,
    source TEXT,
    priority INTEGER NOT NULL CHECK (priority BETWEEN 0 AND 2),
    traceparent TEXT,
    labels TEXT NOT NULL,
    headers TEXT NOT NULL,
    ordering_key TEXT,
    -- The one endpoint that it is for. NULL: all that want it.
    only_endpoint_id BLOB,
    created_at INTEGER NOT NULL,
    -- What its data is. NULL: JSON.
    content_type TEXT,
    -- How it came in, of events of sources: see `received_events` of the embedded store.
    source_id BLOB,
    external_user_id TEXT,
    duplicate_of BLOB,
    received_headers BLOB,
    -- What its deliveries wait for. NULL: nothing.
    waits_for TEXT,
    -- 0: as published. 1: compressed with zstd. 2 and 3: the same, and sealed after that.
    encoding INTEGER NOT NULL CHECK (encoding BETWEEN 0 AND 3),
    body BLOB NOT NULL,
    -- As how many bytes it counts.
    bytes INTEGER NOT NULL CHECK (bytes > 0)
) STRICT;

-- Publishing a key twice while it waits is the same as once.
CREATE UNIQUE INDEX spooled_events_by_key ON spooled_events (application_id, idempotency_key);
-- Each application's events are forwarded by themselves. The position is its last column, as of every index.
CREATE INDEX spooled_events_by_application ON spooled_events (application_id);

-- Events that the store did not take, each with the reason, for a person to look at. They count as bytes of the spool, and go back behind what
-- waits when the spool is opened.
CREATE TABLE unforwarded (
    position INTEGER PRIMARY KEY,
    id BLOB NOT NULL,
    organization_id BLOB NOT NULL,
    application_id BLOB NOT NULL,
    event_type TEXT NOT NULL,
    timestamp INTEGER NOT NULL,
    idempotency_key TEXT NOT NULL,
    valid_since INTEGER,
    source TEXT,
    priority INTEGER NOT NULL,
    traceparent TEXT,
    labels TEXT NOT NULL,
    headers TEXT NOT NULL,
    ordering_key TEXT,
    only_endpoint_id BLOB,
    created_at INTEGER NOT NULL,
    content_type TEXT,
    source_id BLOB,
    external_user_id TEXT,
    duplicate_of BLOB,
    received_headers BLOB,
    waits_for TEXT,
    encoding INTEGER NOT NULL,
    body BLOB NOT NULL,
    bytes INTEGER NOT NULL,
    reason TEXT NOT NULL,
    set_aside_at INTEGER NOT NULL
) STRICT;

-- Which database all of this is of, by the id that it made for itself. No row: it was never used with one.
CREATE TABLE binding (
    singleton INTEGER PRIMARY KEY CHECK (singleton = 1),
    installation BLOB NOT NULL CHECK (length(installation) = 16)
) STRICT;

-- What admits publishers while the store cannot be asked. Keys are known by their hash alone.
CREATE TABLE known_keys (
    hash BLOB PRIMARY KEY CHECK (length(hash) = 32),
    id BLOB NOT NULL CHECK (length(id) = 16),
    organization_id BLOB NOT NULL,
    -- The only application that it reaches; NULL: all of its organization's.
    application_id BLOB,
    name TEXT NOT NULL,
    prefix TEXT NOT NULL,
    scopes INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER
) STRICT, WITHOUT ROWID;

CREATE TABLE known_organizations (
    id BLOB PRIMARY KEY CHECK (length(id) = 16),
    uid TEXT
) STRICT, WITHOUT ROWID;

CREATE TABLE known_applications (
    id BLOB PRIMARY KEY CHECK (length(id) = 16),
    organization_id BLOB NOT NULL,
    uid TEXT,
    is_default INTEGER NOT NULL CHECK (is_default IN (0, 1))
) STRICT, WITHOUT ROWID;
