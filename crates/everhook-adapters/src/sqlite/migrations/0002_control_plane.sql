-- What an organization says about its own events and endpoints: retry schedules, event types, labels, filters and headers.
--
-- Conventions as in 0001.

CREATE TABLE retry_schedules (
    id BLOB PRIMARY KEY CHECK (length(id) = 16),
    organization_id BLOB NOT NULL,
    name TEXT NOT NULL,
    -- The row of `schedules` that says what it means now. Deliveries keep the number, so that a change needs no care for them.
    version INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    UNIQUE (organization_id, name)
) STRICT, WITHOUT ROWID;

CREATE INDEX retry_schedules_by_version ON retry_schedules (version);
CREATE INDEX retry_schedules_by_organization ON retry_schedules (organization_id, id);

-- The schedule that an endpoint follows. Its version is then looked up there, and `retry_schedule` is what it was when the endpoint was written:
-- a change of a schedule writes one row, however many endpoints follow it.
ALTER TABLE endpoints ADD COLUMN retry_schedule_id BLOB;

CREATE INDEX endpoints_by_schedule ON endpoints (retry_schedule_id, id) WHERE retry_schedule_id IS NOT NULL;

CREATE TABLE event_types (
    id BLOB PRIMARY KEY CHECK (length(id) = 16),
    organization_id BLOB NOT NULL,
    name TEXT NOT NULL,
    description TEXT,
    -- JSON, byte for byte, both.
    schema TEXT,
    example TEXT,
    archived INTEGER NOT NULL CHECK (archived IN (0, 1)),
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    UNIQUE (organization_id, name)
) STRICT, WITHOUT ROWID;

CREATE INDEX event_types_by_organization ON event_types (organization_id, id);

ALTER TABLE applications ADD COLUMN strict_event_types INTEGER NOT NULL DEFAULT 0 CHECK (strict_event_types IN (0, 1));

-- What endpoints ask of events beside their type: a JSON object of texts, and a filter as it was written.
ALTER TABLE endpoints ADD COLUMN labels TEXT NOT NULL DEFAULT '{}';
ALTER TABLE endpoints ADD COLUMN filter TEXT;

-- Whether a new URL must prove that it expects requests.
ALTER TABLE endpoints ADD COLUMN verify_url INTEGER NOT NULL DEFAULT 0 CHECK (verify_url IN (0, 1));

-- How much an organization may have and do: a JSON object of numbers, each absent if there is no limit.
ALTER TABLE organizations ADD COLUMN limits TEXT NOT NULL DEFAULT '{}';

-- What few publishers say about their events, in a table of its own so that the others pay nothing for it. It goes with its event.
CREATE TABLE event_extras (
    event_id BLOB PRIMARY KEY CHECK (length(event_id) = 16),
    -- A JSON object of texts.
    labels TEXT NOT NULL,
    -- A JSON array of [name, value].
    headers TEXT NOT NULL
) STRICT, WITHOUT ROWID;
