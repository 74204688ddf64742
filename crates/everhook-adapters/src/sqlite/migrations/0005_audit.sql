-- Who changed what. Conventions as in the first migration.

-- Written in the transaction of the change that it tells of, and never changed. Kept by organization, so that its log is read from one place.
CREATE TABLE audit_log (
    organization_id BLOB NOT NULL,
    id BLOB NOT NULL CHECK (length(id) = 16),
    at INTEGER NOT NULL,
    -- NULL: the server itself.
    actor_id BLOB,
    actor_name TEXT,
    action TEXT NOT NULL,
    resource_id BLOB NOT NULL CHECK (length(resource_id) = 16),
    -- JSON objects with the fields that changed. NULL: it was not there before, or is not there after.
    before TEXT,
    after TEXT,
    is_cut INTEGER NOT NULL CHECK (is_cut IN (0, 1)),
    PRIMARY KEY (organization_id, id),
    CHECK ((actor_id IS NULL) = (actor_name IS NULL))
) STRICT, WITHOUT ROWID;

CREATE INDEX audit_log_by_resource ON audit_log (organization_id, resource_id, id);

-- When a key was last used, to the minute. In a table of its own, so that the record of a key is written once.
CREATE TABLE api_key_uses (
    api_key_id BLOB PRIMARY KEY CHECK (length(api_key_id) = 16),
    last_used_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
