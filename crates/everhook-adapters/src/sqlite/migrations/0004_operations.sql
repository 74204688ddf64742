-- Operations: bulk actions that are selected first and then worked off, a little at a time.

ALTER TABLE deliveries ADD COLUMN operation_id BLOB;

-- Those that were made after their event was: an operation can make one that does none again.
DROP INDEX replays_by_event;
CREATE INDEX made_later_by_event ON deliveries (event_id, id) WHERE replay_of IS NOT NULL OR operation_id IS NOT NULL;

CREATE TABLE operations (
    id BLOB PRIMARY KEY CHECK (length(id) = 16),
    organization_id BLOB NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('retry_batch', 'discard_batch', 'recover', 'replay', 'erase')),
    status TEXT NOT NULL CHECK (status IN ('pending', 'running', 'finished', 'cancelled', 'failed')),
    -- JSON.
    selection TEXT NOT NULL,
    -- What is left to do.
    phase TEXT NOT NULL CHECK (phase IN ('selecting', 'selected', 'clearing', 'over')),
    -- Up to which id the selection has looked.
    selected_until BLOB NOT NULL CHECK (length(selected_until) = 16),
    total INTEGER NOT NULL,
    done INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    skipped INTEGER NOT NULL,
    rate_per_second INTEGER,
    priority INTEGER NOT NULL CHECK (priority BETWEEN 0 AND 2),
    start_at INTEGER,
    created_at INTEGER NOT NULL,
    started_at INTEGER,
    finished_at INTEGER,
    CHECK ((status IN ('finished', 'cancelled', 'failed')) = (finished_at IS NOT NULL)),
    CHECK ((status IN ('finished', 'cancelled', 'failed')) = (phase IN ('clearing', 'over'))),
    CHECK (done + failed + skipped <= total)
) STRICT, WITHOUT ROWID;

CREATE INDEX operations_by_organization ON operations (organization_id, id);
CREATE INDEX operations_with_work ON operations (id) WHERE phase <> 'over';

-- What an operation still has to do. A row is deleted in the write that does it.
CREATE TABLE operation_items (
    operation_id BLOB NOT NULL,
    -- The event's sequence number: the order in which an ordered lane gets them.
    position INTEGER NOT NULL,
    lane INTEGER NOT NULL,
    event_id BLOB NOT NULL,
    -- The delivery that is done again, if there is one.
    replay_of BLOB,
    PRIMARY KEY (operation_id, position, lane)
) STRICT, WITHOUT ROWID;

-- The same for operations that erase: they are about events, wherever these went.
CREATE TABLE erasure_items (
    operation_id BLOB NOT NULL,
    event_id BLOB NOT NULL,
    PRIMARY KEY (operation_id, event_id)
) STRICT, WITHOUT ROWID;

-- Dead letters that come back by themselves. The delivery that did so last tells whether its death is to be told.
ALTER TABLE dead_letters ADD COLUMN automatic_delivery_id BLOB;
ALTER TABLE dead_letters ADD COLUMN recoverable INTEGER NOT NULL DEFAULT 1 CHECK (recoverable IN (0, 1));
UPDATE dead_letters SET recoverable = 0
WHERE cause IN ('gone', 'given_up') OR failure_category IN ('blocked_address', 'payload_too_large');
CREATE INDEX recoverable_dead_letters ON dead_letters (organization_id, failures, last_failure_at) WHERE status = 'dead' AND recoverable = 1;

CREATE TABLE auto_replays (
    organization_id BLOB PRIMARY KEY CHECK (length(organization_id) = 16),
    enabled INTEGER NOT NULL CHECK (enabled IN (0, 1)),
    after INTEGER NOT NULL,
    requests_per_second INTEGER NOT NULL CHECK (requests_per_second > 0),
    max_tries INTEGER NOT NULL CHECK (max_tries > 0)
) STRICT, WITHOUT ROWID;
